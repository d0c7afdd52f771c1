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

// Book is the ledger of one client.
type Book struct {
	file *os.File
	mu   sync.Mutex
	end  int64 // of the file: where the next page goes
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
	return &Book{file: file, end: found.Size()}, nil
}

// page adds a page to the file and maps it. Zeros are written first: a full disk is told here, not by a signal later.
func (b *Book) page() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file.WriteAt(make([]byte, Page), b.end); err != nil {
		return nil, err
	}
	page, err := syscall.Mmap(int(b.file.Fd()), b.end, Page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err == nil {
		b.end += Page
	}
	return page, err
}

// Close closes the file; pages stay mapped until their writers end.
func (b *Book) Close() error { return b.file.Close() }

// Writer writes the entries of one worker.
type Writer struct {
	book   *Book
	worker uint16
	page   []byte
	at     int
}

// Writer is a new one, for a worker with this number.
func (b *Book) Writer(worker int) *Writer { return &Writer{book: b, worker: uint16(worker), at: Page} }

// Begin notes a write whose request is about to be sent. If that fails, the request must not be sent.
func (w *Writer) Begin(number int, generation uint32, kind byte, now int64) error {
	if w.at+Entry > len(w.page) {
		page, err := w.book.page()
		if err != nil {
			return err
		}
		if w.page != nil {
			_ = syscall.Munmap(w.page)
		}
		w.page, w.at = page, 0
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
