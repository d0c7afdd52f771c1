package records

import (
	"bufio"
	"fmt"
	"os"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// Plan describes the meaning of the operations' numbers.
type Plan struct {
	Client     int
	StartNs    int64
	MostSingle int
	BinNs      int64 // width of a bin; 0: BinNs
	Open       bool
	Sized      bool // operations have different numbers of bytes
	Kinds      []Kind
	Object     func(kind, number int) string // name of an operation's object; "" for none

	mu      sync.Mutex
	classes []string // of errors; an Op's class is the index + 1
	numbers map[string]int
}

// Kind is one of the job's operations.
type Kind struct {
	Op       string
	Bytes    int64 // number of bytes of a successful operation
	Requests int32
	Many     bool  // the number is a count of objects
	Paged    bool  // the number is the number of its requests
	Count    int64 // objects of each operation; 0: one, or the number if Many
}

func (p *Plan) binNs() int64 {
	if p.BinNs > 0 {
		return p.BinNs
	}
	return BinNs
}

// Class returns the number of an error class; after 126 classes, all others are "Other".
func (p *Plan) Class(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.numbers[name]; ok {
		return n
	}
	if p.numbers == nil {
		p.numbers = map[string]int{}
	}
	if len(p.classes) >= mostClasses-2 {
		name = "Other"
	}
	if n, ok := p.numbers[name]; ok {
		return n
	}
	p.classes = append(p.classes, name)
	p.numbers[name] = len(p.classes)
	return len(p.classes)
}

// moved returns the objects and the useful bytes of an operation.
func (p *Plan) moved(o *Op) (count, bytes int64) {
	kind := &p.Kinds[o.Kind]
	count = max(1, kind.Count)
	if kind.Many {
		count = int64(o.Object)
	}
	if o.Class == 0 {
		bytes = p.Useful(o)
	}
	return count, bytes
}

// Useful returns the useful bytes of an operation that succeeds.
func (p *Plan) Useful(o *Op) int64 {
	if p.Sized {
		return o.Size
	}
	return p.Kinds[o.Kind].Bytes
}

// requests returns the HTTP requests of an operation.
func (p *Plan) requests(o *Op) int64 {
	if kind := &p.Kinds[o.Kind]; !kind.Paged {
		return int64(kind.Requests)
	}
	return int64(o.Object)
}

// row is the schema; optional columns are those of storelab's schema.
type row struct {
	Client      int16    `parquet:"client,optional,dict,zstd"`
	Worker      int16    `parquet:"worker,optional,dict,zstd"`
	Op          string   `parquet:"op,optional,dict,zstd"`
	Object      string   `parquet:"object,optional,dict,zstd"`
	Count       int64    `parquet:"count,optional,dict,zstd"`
	Bytes       int64    `parquet:"bytes,optional,delta,zstd"`
	WireBytes   int64    `parquet:"wire_bytes,optional,delta,zstd"`
	Requests    int32    `parquet:"requests,optional,zstd"`
	StartNs     int64    `parquet:"start_ns,optional,delta,zstd"`
	FirstByteNs int64    `parquet:"first_byte_ns,optional,delta,zstd"`
	EndNs       int64    `parquet:"end_ns,optional,delta,zstd"`
	Status      int16    `parquet:"status,optional,dict,zstd"`
	Error       string   `parquet:"error,optional,dict,zstd"`
	LatencyHist []bucket `parquet:"latency_hist,optional,list"`
	IntendedNs  int64    `parquet:"intended_ns,optional,delta,zstd"`
	Endpoint    int16    `parquet:"endpoint,optional,dict,zstd"`
}

type bucket struct {
	UpperNs int64 `parquet:"upper_ns,optional,zstd"`
	Count   int64 `parquet:"count,optional,zstd"`
}

// Columns of a row as Parquet numbers its leaves.
const (
	colClient = iota
	colWorker
	colOp
	colObject
	colCount
	colBytes
	colWireBytes
	colRequests
	colStart
	colFirst
	colEnd
	colStatus
	colError
	colUpper
	colBucketCount
	colIntended
	colEndpoint
	columns
)

// rowsPerGroup limits the memory of writing.
const rowsPerGroup = 128 * 1024

// Totals are sums over all operations: objects and bytes of successful operations, and objects of failed operations.
type Totals struct {
	Operations int64            `json:"operations"`
	Bytes      int64            `json:"bytes"`
	Errors     int64            `json:"errors"`
	Rows       int64            `json:"rows"`
	Binned     bool             `json:"binned"`
	ByClass    map[string]int64 `json:"by_class"`
}

func (t *Totals) add(p *Plan, class int, count, bytes int64) {
	if class == 0 {
		t.Operations += count
		t.Bytes += bytes
		return
	}
	t.Errors += count
	t.ByClass[p.classes[class-1]] += count
}

// Write writes all flushed operations to a file, which has a temporary name until it is complete and synced.
func (k *Keeper) Write(path string) (Totals, error) {
	totals := Totals{ByClass: map[string]int64{}}
	temporary := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	file, err := os.Create(temporary)
	if err != nil {
		return totals, err
	}
	defer os.Remove(temporary)
	defer file.Close()
	buffered := bufio.NewWriterSize(file, 1<<20)
	out := parquet.NewGenericWriter[row](buffered, parquet.MaxRowsPerRowGroup(rowsPerGroup), parquet.CreatedBy("storelab loadgen", "1", ""))
	w := &writer{plan: k.plan, out: out, totals: &totals}
	if k.bins != nil {
		totals.Binned = true
		for _, key := range k.bins.sorted() {
			w.bin(key, k.bins.sums[key])
		}
	} else {
		for i := range k.chunks {
			for j, p := range k.chunks[i].ops {
				o := p.unpack()
				if k.plan.Open {
					o.Due = k.chunks[i].due[j]
				}
				if k.plan.Sized {
					o.Size = k.chunks[i].size[j]
				}
				w.single(k.chunks[i].worker, &o)
			}
			k.chunks[i].drop() // frees its memory for the next chunks
		}
	}
	w.flush()
	if w.err != nil {
		return totals, w.err
	}
	if err := out.Close(); err != nil {
		return totals, err
	}
	if err := buffered.Flush(); err != nil {
		return totals, err
	}
	if err := file.Sync(); err != nil {
		return totals, err
	}
	return totals, os.Rename(temporary, path)
}

// writer converts operations into rows, and writes them in batches.
type writer struct {
	plan   *Plan
	out    *parquet.GenericWriter[row]
	totals *Totals
	rows   []parquet.Row
	err    error
}

func (w *writer) next() *parquet.Row {
	if len(w.rows) == 512 {
		w.flush()
	}
	if len(w.rows) < cap(w.rows) {
		w.rows = w.rows[:len(w.rows)+1]
	} else {
		w.rows = append(w.rows, make(parquet.Row, 0, columns))
	}
	r := &w.rows[len(w.rows)-1]
	*r = (*r)[:0]
	return r
}

func (w *writer) flush() {
	if w.err == nil && len(w.rows) > 0 {
		_, w.err = w.out.WriteRows(w.rows)
	}
	w.rows = w.rows[:0]
}

func null(col int) parquet.Value { return parquet.NullValue().Level(0, 0, col) }
func long(v int64, col int) parquet.Value {
	return parquet.Int64Value(v).Level(0, 1, col)
}
func short(v int, col int) parquet.Value {
	return parquet.Int32Value(int32(v)).Level(0, 1, col)
}
func text(v string, col int) parquet.Value {
	if v == "" {
		return null(col)
	}
	return parquet.ByteArrayValue([]byte(v)).Level(0, 1, col)
}

// common fills the columns up to `requests`; worker -1: no worker.
func (w *writer) common(r parquet.Row, worker, kind, class int, object string, count, bytes, requests int64) parquet.Row {
	k := &w.plan.Kinds[kind]
	w.totals.add(w.plan, class, count, bytes)
	w.totals.Rows++
	r = append(r, short(w.plan.Client, colClient))
	if worker < 0 {
		r = append(r, null(colWorker))
	} else {
		r = append(r, short(worker, colWorker))
	}
	return append(r, text(k.Op, colOp), text(object, colObject), long(count, colCount), long(bytes, colBytes), null(colWireBytes),
		short(int(requests), colRequests))
}

func (w *writer) outcome(r parquet.Row, class, status int) parquet.Row {
	if status == 0 {
		r = append(r, null(colStatus))
	} else {
		r = append(r, short(status, colStatus))
	}
	if class == 0 {
		return append(r, null(colError))
	}
	return append(r, text(w.plan.classes[class-1], colError))
}

func (w *writer) single(worker int, o *Op) {
	object := ""
	if kind := &w.plan.Kinds[o.Kind]; !kind.Many && !kind.Paged {
		object = w.plan.Object(o.Kind, o.Object)
	}
	count, bytes := w.plan.moved(o)
	at, row := w.plan.StartNs+o.Start, w.next()
	r := w.common(*row, worker, o.Kind, o.Class, object, count, bytes, w.plan.requests(o))
	r = append(r, long(at, colStart))
	if o.First == 0 {
		r = append(r, null(colFirst))
	} else {
		r = append(r, long(at+o.First, colFirst))
	}
	r = w.outcome(append(r, long(at+o.Lasted, colEnd)), o.Class, o.Status)
	r = append(r, null(colUpper), null(colBucketCount))
	if w.plan.Open {
		r = append(r, long(w.plan.StartNs+o.Due, colIntended))
	} else {
		r = append(r, null(colIntended))
	}
	*row = append(r, short(o.Endpoint, colEndpoint))
}

func (w *writer) bin(key bin, s *sums) {
	row := w.next()
	r := w.common(*row, -1, key.kind, key.class, "", s.count, s.bytes, s.requests)
	r = append(r, null(colStart), null(colFirst), long(w.plan.StartNs+(key.number+1)*w.plan.binNs(), colEnd))
	r = w.outcome(r, key.class, key.status)
	// An optional list of required groups of optional values, as in the schema `row`: present values are at the deepest
	// level.
	var uppers, counts []parquet.Value
	for i, upper := range edges {
		if n := s.buckets[i]; n > 0 {
			again := 0
			if len(uppers) > 0 {
				again = 1
			}
			uppers = append(uppers, parquet.Int64Value(upper).Level(again, deepest, colUpper))
			counts = append(counts, parquet.Int64Value(n).Level(again, deepest, colBucketCount))
		}
	}
	r = append(append(r, uppers...), counts...)
	*row = append(r, null(colIntended), null(colEndpoint))
}

// deepest is the definition level of a value in a histogram, with list, element and value present.
var deepest = func() int {
	level := 0
	for _, c := range parquet.SchemaOf(row{}).Columns() {
		if c[0] == "latency_hist" {
			leaf, _ := parquet.SchemaOf(row{}).Lookup(c...)
			level = leaf.MaxDefinitionLevel
		}
	}
	return level
}()
