// Package ledger records the writes of a client in a file that remains if the client is killed. The entry of a write is
// made before its request is sent. Its acknowledgement is recorded before the worker's next operation begins.
//
// An entry is 32 bytes, little-endian: number of the key and generation of the key (uint32), worker (uint16), kind (1:
// new object, 2: overwrite, 3: deletion), five zeros, begin and acknowledgement (Unix ns; 0: not acknowledged). The file
// begins with a header, which the program that starts loadgen writes. After the header, each worker fills separate
// pages, so that workers do not wait for each other. Pages are mapped. Therefore an entry is in the kernel's page cache
// immediately, without a system call, and stays there if this process is killed. The unused part of a page is zero.
package ledger

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	// Entry is the size of an entry. Page is the size of a worker's page, a multiple of the kernel's page size.
	Entry = 32
	Page  = 16 << 10
)

// Kinds of writes.
const (
	New       = 1
	Overwrite = 2
	Delete    = 3
)

// regionPages is the number of pages that are added to the file at a time, in advance, so that no worker waits for the
// kernel.
const regionPages = 64

var zeros [regionPages * Page]byte

// region is a mapped part of the file. It is unmapped when all its pages are full.
type region struct {
	bytes []byte
	left  atomic.Int32
	err   error
}

func (r *region) done() {
	if r.left.Add(-1) == 0 {
		_ = syscall.Munmap(r.bytes)
	}
}

// Book is the ledger of one client.
type Book struct {
	file  *os.File
	ready chan *region
	mu    sync.Mutex
	now   *region
	at    int // offset of the next page in this region
}

// Open opens a ledger that already has its header.
func Open(name string) (*Book, error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	found, err := file.Stat()
	if err == nil && (found.Size() == 0 || found.Size()%Page != 0 || Page%os.Getpagesize() != 0) {
		err = fmt.Errorf("its size, %d B, is not a header and whole pages of %d B", found.Size(), Page)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	b := &Book{file: file, ready: make(chan *region)}
	go b.prepare(found.Size())
	return b, nil
}

// prepare adds regions to the file, so that one is always ready. The file is not closed, because it is used until the
// client ends.
func (b *Book) prepare(end int64) {
	for {
		r := &region{}
		if r.bytes, r.err = b.mapped(end); r.err == nil {
			r.left.Store(regionPages)
			end += int64(len(r.bytes))
		}
		b.ready <- r
	}
}

// mapped adds a region and maps it. It writes zeros first, because a full disk would otherwise cause a signal later.
func (b *Book) mapped(end int64) ([]byte, error) {
	if _, err := b.file.WriteAt(zeros[:], end); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(b.file.Fd()), end, len(zeros), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
}

// page returns an unused page.
func (b *Book) page() (*region, []byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil || b.at == len(b.now.bytes) {
		fresh := <-b.ready
		if fresh.err != nil {
			return nil, nil, fresh.err
		}
		b.now, b.at = fresh, 0
	}
	page := b.now.bytes[b.at : b.at+Page]
	b.at += Page
	return b.now, page, nil
}

// Writer writes the entries of one worker.
type Writer struct {
	book   *Book
	worker uint16
	region *region
	page   []byte
	at     int
}

// Writer returns a new writer for the worker with this number.
func (b *Book) Writer(worker int) *Writer { return &Writer{book: b, worker: uint16(worker), at: Page} }

// Begin records a write before its request is sent. If that fails, the request must not be sent.
func (w *Writer) Begin(number int, generation uint32, kind byte, now int64) error {
	if w.at+Entry > len(w.page) {
		region, page, err := w.book.page()
		if err != nil {
			return err
		}
		if w.region != nil {
			w.region.done()
		}
		w.region, w.page, w.at = region, page, 0
	}
	e := w.page[w.at : w.at+Entry]
	w.at += Entry
	le := binary.LittleEndian
	le.PutUint32(e, uint32(number))
	le.PutUint32(e[4:], generation)
	le.PutUint16(e[8:], w.worker)
	e[10] = kind
	le.PutUint64(e[16:], uint64(now)) // written last, because an entry without this value is not valid
	return nil
}

// Ack records that the store acknowledged the last write.
func (w *Writer) Ack(now int64) {
	binary.LittleEndian.PutUint64(w.page[w.at-Entry+24:], uint64(now))
}
