package records

import (
	"syscall"
	"unsafe"
)

const (
	blockBytes   = 8 << 10 // whole pages
	blocksAtOnce = 128
	packedBytes  = int(unsafe.Sizeof(packed{}))
)

// blocks is memory for packed operations outside of Go's heap. On Go's heap, garbage can be as large as the memory in
// use, so that 5 million operations would need their 120 MB twice. Unused pages need no memory.
type blocks struct {
	free []byte
}

// take returns memory for the operations of one block, and for their due times and sizes, if they have them.
func (b *blocks) take(due, size bool) (ops []packed, times, sizes []int64) {
	if len(b.free) == 0 {
		fresh, err := syscall.Mmap(-1, 0, blocksAtOnce*blockBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			panic("no memory for the records: " + err.Error()) // as the Go runtime does
		}
		b.free = fresh
	}
	block := b.free[:blockBytes]
	b.free = b.free[blockBytes:]
	first := unsafe.Pointer(unsafe.SliceData(block))
	n, columns := blockBytes/packedBytes, 0
	for _, has := range []bool{due, size} {
		if has {
			columns++
			n = blockBytes / (packedBytes + 8*columns)
		}
	}
	at := n * packedBytes
	column := func(has bool) []int64 {
		if !has {
			return nil
		}
		out := unsafe.Slice((*int64)(unsafe.Add(first, at)), n)[:0]
		at += 8 * n
		return out
	}
	times, sizes = column(due), column(size)
	return unsafe.Slice((*packed)(first), n)[:0], times, sizes
}

// drop returns the memory of a chunk to the system. The chunk must not be read afterwards.
func (c *chunk) drop() {
	if cap(c.ops) > 0 {
		whole := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.ops))), blockBytes)
		_ = syscall.Madvise(whole, syscall.MADV_DONTNEED) // after an error, the memory stays in use, which does no harm
	}
	*c = chunk{}
}
