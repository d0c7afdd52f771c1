// Package ledger keeps what a client wrote into a store, in a file that survives the client: an entry for each write,
// from before its request is sent, and its acknowledgement before the worker's next operation begins.
//
// An entry is 32 bytes, little-endian: number of the key and generation of the key (uint32), worker (uint16), kind (1:
// new object, 2: overwrite, 3: deletion), five zeros, begin and acknowledgement (UTC ns; 0: none came). The
// file begins with a header, which whoever starts loadgen writes; behind it, each worker fills pages of its own, so
// that nobody waits for others. Pages are mapped: an entry is in the kernel's page cache at once, without a system
// call, and stays there when this process is killed. What is not used of a page is zero.
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
	// Entry is the size of one entry, Page that of a worker's page, a multiple of what the kernel maps.
	Entry = 32
	Page  = 16 << 10
)

// Kinds of writes.
const (
	New       = 1
	Overwrite = 2
	Delete    = 3
)

// regionPages is how many pages are added to the file at a time, ahead of need, so that no worker waits for the kernel.
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
	at    int // in it: where the next page begins
}

// Open opens a ledger that has its header already.
func Open(name string) (*Book, error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	found, err := file.Stat()
	if err == nil && (found.Size() == 0 || found.Size()%Page != 0 || Page%os.Getpagesize() != 0) {
		err = fmt.Errorf("%d B are no header in whole pages of %d B", found.Size(), Page)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	b := &Book{file: file, ready: make(chan *region)}
	go b.prepare(found.Size())
	return b, nil
}

// prepare adds regions to the file, one ahead. It is never closed: a client ends with it.
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

// mapped adds a region. Zeros are written first: a full disk is told here, not by a signal later.
func (b *Book) mapped(end int64) ([]byte, error) {
	if _, err := b.file.WriteAt(zeros[:], end); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(b.file.Fd()), end, len(zeros), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
}

// page is an unused page.
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

// Writer is a new one, for a worker with this number.
func (b *Book) Writer(worker int) *Writer { return &Writer{book: b, worker: uint16(worker), at: Page} }

// Begin notes a write whose request is about to be sent. If that fails, the request must not be sent.
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
	le.PutUint64(e[16:], uint64(now)) // last: an entry without it is none
	return nil
}

// Ack notes that the store acknowledged the write that began last.
func (w *Writer) Ack(now int64) {
	binary.LittleEndian.PutUint64(w.page[w.at-Entry+24:], uint64(now))
}
