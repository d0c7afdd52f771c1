// Package records stores the result of each operation in 24 bytes, and writes files with storelab's Parquet schema `ops`
// (docs/records.md).
package records

import "sync"

// Op is one operation. Times are in nanoseconds since the agreed start. First is 0 if it is unknown. Due is 0 in a closed
// loop.
type Op struct {
	Start, Lasted int64 // Start at least 0; both below 2^44 (4.8 hours)
	First         int64 // head of the answer, since Start
	Due           int64
	Size          int64 // bytes, if operations have different sizes
	Kind          int   // index in Plan.Ops
	Class         int   // 0: success; else index + 1 in the classes of errors
	Status        int   // HTTP; 0: no answer
	Object        int   // index in Plan.Objects, or number of the upload; for operations on many objects, their number
	Endpoint      int
}

// packed is an Op without Due and Size. It has three words, each with 44 bits of a time and 20 other bits. The 60 other
// bits are: object 32, kind 3, class 7, status 10, endpoint 8.
type packed [3]uint64

const (
	timeBits = 44
	restBits = 64 - timeBits
	restMask = 1<<restBits - 1
	// MostEndpoints and mostClasses limit what a packed operation can distinguish.
	MostEndpoints = 1 << 8
	mostClasses   = 1 << 7
)

func pack(o *Op) packed {
	rest := uint64(o.Object)&0xffffffff | uint64(o.Kind)<<32 | uint64(o.Class)<<35 | uint64(o.Status)<<42 | uint64(o.Endpoint)<<52
	return packed{
		uint64(o.Start)<<restBits | rest&restMask,
		uint64(o.Lasted)<<restBits | rest>>restBits&restMask,
		uint64(o.First)<<restBits | rest>>(2*restBits),
	}
}

func (p packed) unpack() Op {
	rest := p[0]&restMask | p[1]&restMask<<restBits | p[2]&restMask<<(2*restBits)
	return Op{
		Start: int64(p[0] >> restBits), Lasted: int64(p[1] >> restBits), First: int64(p[2] >> restBits),
		Object: int(rest & 0xffffffff), Kind: int(rest >> 32 & 7), Class: int(rest >> 35 & 127), Status: int(rest >> 42 & 1023),
		Endpoint: int(rest >> 52 & 255),
	}
}

// chunk is a sequence of operations of one worker, in a block.
type chunk struct {
	worker int
	ops    []packed
	due    []int64 // open loop
	size   []int64 // where operations differ
}

// full returns whether the block is full.
func (c *chunk) full() bool { return len(c.ops) == cap(c.ops) }

// Keeper collects the operations of all workers. If there are more than Most operations, it stores all of them as bins.
type Keeper struct {
	plan   *Plan
	mu     sync.Mutex
	blocks blocks
	chunks []chunk
	n      int
	bins   *bins // nil: single operations
}

// NewKeeper returns an empty keeper.
func NewKeeper(plan *Plan) *Keeper { return &Keeper{plan: plan} }

// Worker returns the place where one worker records its operations.
func (k *Keeper) Worker(number int) *Worker { return &Worker{keeper: k, chunk: chunk{worker: number}} }

// Worker is the place where one worker records its operations. It is not safe for concurrent use.
type Worker struct {
	keeper *Keeper
	chunk  chunk
}

// Note records one operation.
func (w *Worker) Note(o *Op) {
	if w.chunk.full() { // the lock is needed only once per block
		w.Flush()
		w.begin()
	}
	w.chunk.ops = append(w.chunk.ops, pack(o))
	if w.keeper.plan.Open {
		w.chunk.due = append(w.chunk.due, o.Due)
	}
	if w.keeper.plan.Sized {
		w.chunk.size = append(w.chunk.size, o.Size)
	}
}

// begin takes a new block, unless the worker still has one.
func (w *Worker) begin() {
	if cap(w.chunk.ops) == 0 {
		k := w.keeper
		k.mu.Lock()
		defer k.mu.Unlock()
		w.chunk.ops, w.chunk.due, w.chunk.size = k.blocks.take(k.plan.Open, k.plan.Sized)
	}
}

// Flush passes the operations of this worker to the keeper.
func (w *Worker) Flush() {
	if len(w.chunk.ops) == 0 {
		return
	}
	k := w.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n += len(w.chunk.ops); k.bins == nil && k.n > k.plan.MostSingle {
		k.bins = newBins(k.plan)
		for i := range k.chunks {
			k.bins.add(&k.chunks[i])
			k.chunks[i].drop()
		}
		k.chunks = nil
	}
	if k.bins != nil {
		k.bins.add(&w.chunk)
		w.chunk.ops, w.chunk.due, w.chunk.size = w.chunk.ops[:0], w.chunk.due[:0], w.chunk.size[:0]
		return
	}
	k.chunks = append(k.chunks, w.chunk)
	w.chunk = chunk{worker: w.chunk.worker}
}
