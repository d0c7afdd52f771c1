package ledger

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// entry is an entry that is read without this package's code.
type entry struct {
	Number, Generation uint32
	Worker             uint16
	Kind               byte
	_                  [5]byte
	Begin, Ack         int64
}

// fresh returns a ledger with a header of the given number of pages.
func fresh(t *testing.T, pages int) string {
	name := filepath.Join(t.TempDir(), "ledger.0")
	if err := os.WriteFile(name, append([]byte("{}\n"), make([]byte, pages*Page-3)...), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string, pages int) []entry {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil || len(data)%Page != 0 {
		t.Fatalf("%d B, %v", len(data), err)
	}
	var out []entry
	for at := pages * Page; at < len(data); at += Entry {
		var e entry
		if _, err := binary.Decode(data[at:at+Entry], binary.LittleEndian, &e); err != nil {
			t.Fatal(err)
		}
		if e.Begin != 0 {
			out = append(out, e)
		}
	}
	return out
}

func TestEveryEntryOfEveryWorkerIsThere(t *testing.T) {
	const workers, each = 7, 20*Page/Entry + 5
	name := fresh(t, 2)
	b, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for worker := range workers {
		w := b.Writer(worker)
		all.Go(func() {
			for n := range each {
				if err := w.Begin(worker+n*workers, uint32(n+1), Delete, int64(1000+n)); err != nil {
					t.Error(err)
				}
				if n%3 > 0 {
					w.Ack(int64(2000 + n))
				}
			}
		})
	}
	all.Wait()
	got := read(t, name, 2)
	if len(got) != workers*each {
		t.Fatalf("%d entries", len(got))
	}
	seen := map[uint32]bool{}
	for _, e := range got {
		worker, n := int(e.Worker), (int(e.Number)-int(e.Worker))/workers
		want := entry{Number: uint32(worker + n*workers), Generation: uint32(n + 1), Worker: e.Worker, Kind: Delete, Begin: int64(1000 + n)}
		if n%3 > 0 {
			want.Ack = int64(2000 + n)
		}
		if e != want || seen[e.Number] {
			t.Fatalf("%+v instead of %+v", e, want)
		}
		seen[e.Number] = true
	}
}

func TestAnEntryIsThereBeforeAnythingElseIsDone(t *testing.T) {
	name := fresh(t, 1)
	b, _ := Open(name)
	w := b.Writer(65535)
	if got := read(t, name, 1); len(got) != 0 {
		t.Fatalf("%v of nothing", got)
	}
	w.Begin(1<<32-1, 1, New, 77)
	if got := read(t, name, 1); len(got) != 1 || got[0] != (entry{Number: 1<<32 - 1, Generation: 1, Worker: 65535, Kind: New, Begin: 77}) {
		t.Fatalf("%+v", got)
	}
	w.Ack(78)
	if got := read(t, name, 1); len(got) != 1 || got[0].Ack != 78 {
		t.Fatalf("%+v", got)
	}
}

func TestALedgerWithoutItsHeaderIsRefused(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a ledger that is not there")
	}
	for _, size := range []int{0, 1, Page - 1, Page + 1} {
		name := filepath.Join(t.TempDir(), "ledger.0")
		os.WriteFile(name, make([]byte, size), 0o600)
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), "not a header") {
			t.Errorf("%d B: %v", size, err)
		}
	}
}

func TestAFullDiskIsToldBeforeTheWrite(t *testing.T) {
	name := fresh(t, 1)
	b, _ := Open(name)
	w := b.Writer(0)
	var before syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: Page * (1 + regionPages), Max: before.Max}); err != nil {
		t.Skip(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	for n := range regionPages * Page / Entry {
		if err := w.Begin(n, 1, New, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Begin(0, 2, Overwrite, 2); err == nil {
		t.Error("no free space, and no error")
	}
}

// The additional time of a write with a ledger; a request takes about 20 µs.
func BenchmarkWrite(b *testing.B) {
	name := filepath.Join(b.TempDir(), "ledger.0")
	os.WriteFile(name, make([]byte, Page), 0o600)
	book, err := Open(name)
	if err != nil {
		b.Fatal(err)
	}
	w := book.Writer(0)
	for n := 0; b.Loop(); n++ {
		w.Begin(n, 1, New, int64(n+1))
		w.Ack(int64(n + 2))
	}
}
