package s3null

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A Body is the content of objects: a file, mapped into memory.
type Body struct {
	Data []byte
	ETag string
}

// Bodies are the files of one folder. Each is mapped at its first request. A name always has the same content.
type Bodies struct {
	folder string
	lock   sync.RWMutex
	known  map[string]*Body
}

// Open returns the bodies of a folder. It does not read them.
func Open(folder string) *Bodies {
	return &Bodies{folder: folder, known: map[string]*Body{}}
}

// Of returns the body of an object, or nil if it does not exist. Its name is the second last component of the key.
func (b *Bodies) Of(key string) *Body {
	end := strings.LastIndexByte(key, '/')
	if end < 1 {
		return nil
	}
	name := key[strings.LastIndexByte(key[:end], '/')+1 : end]
	b.lock.RLock()
	body := b.known[name]
	b.lock.RUnlock()
	if body == nil && name != "" && name[0] != '.' {
		body = b.load(name)
	}
	return body
}

func (b *Bodies) load(name string) *Body {
	b.lock.Lock()
	defer b.lock.Unlock()
	if body := b.known[name]; body != nil {
		return body // another request was faster
	}
	body, err := mapped(filepath.Join(b.folder, name))
	if err != nil {
		return nil
	}
	b.known[name] = body
	return body
}

func mapped(path string) (*Body, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	hash := fnv.New128a()
	hash.Write([]byte(filepath.Base(path)))
	body := &Body{ETag: fmt.Sprintf(`"%x"`, hash.Sum(nil))}
	if info.Size() > 0 {
		body.Data, err = syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	}
	return body, err
}
