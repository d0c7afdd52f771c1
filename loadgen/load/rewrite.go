package load

import (
	"encoding/binary"
	"math/rand/v2"

	"storelab/loadgen/job"
	"storelab/loadgen/ledger"
)

// stampSize is the size of what each written object begins with, so that its bytes tell which write they are of: 12
// bytes of the job's, the key's number (8 bytes) and its generation (4), little-endian.
const stampSize = job.StampSize

// slot is a place for one object of a worker. Its key is left alone after an operation whose outcome nobody knows: what
// such an operation may still do then cannot disturb what is expected of a later one.
type slot struct {
	number     int // of the key
	generation uint32
	there      bool
}

// rewriter gives one worker its tasks: it puts objects, overwrites and deletes them, over a bounded set of keys that
// are this worker's own.
type rewriter struct {
	job         *job.Job
	rng         *rand.Rand
	slots       []slot
	next        int // number of the next new key
	at          int // the slot of the operation in flight
	put, delete task
	last        *task
	stamp       [stampSize]byte
}

func newRewriter(j *job.Job, worker int) *rewriter {
	w := &rewriter{job: j, rng: rand.New(rand.NewPCG(j.Seed, uint64(worker)<<8|0xff)), slots: make([]slot, j.Rewrite.Keys), next: worker}
	copy(w.stamp[:], j.Rewrite.Stamp)
	for kind, o := range j.Operations {
		t := task{kind: kind, op: o.Op}
		if o.Op == job.Put {
			w.put = t
		} else {
			w.delete = t
		}
	}
	for i := range w.slots {
		w.renew(&w.slots[i])
	}
	return w
}

func (w *rewriter) renew(s *slot) {
	*s = slot{number: w.next}
	w.next += w.job.Workers
}

// task is the next operation: of a random slot, which is put if it is empty, else deleted or overwritten.
func (w *rewriter) task() *task {
	w.at = w.rng.IntN(len(w.slots))
	s := &w.slots[w.at]
	s.generation++
	t := &w.put
	switch {
	case !s.there:
		t.write = ledger.New
	case w.rng.Float64() < w.job.Rewrite.Deletes:
		t = &w.delete
		t.write = ledger.Delete
	default:
		t.write = ledger.Overwrite
	}
	place := w.job.Uploads[(w.job.FirstPut+s.number)%len(w.job.Uploads)]
	t.number, t.bucket, t.key, t.generation = s.number, place.Bucket, uploaded(place.Prefix, s.number), s.generation
	t.size = w.job.ObjectSize
	if t.write != ledger.Delete {
		t.body = (s.number + int(s.generation)) % len(w.job.Bodies)
		binary.LittleEndian.PutUint64(w.stamp[12:], uint64(s.number))
		binary.LittleEndian.PutUint32(w.stamp[20:], s.generation)
		t.stamp = w.stamp[:]
	}
	w.last = t
	return t
}

// done says how the last task ended.
func (w *rewriter) done(ok bool) {
	s := &w.slots[w.at]
	s.there = w.last.write != ledger.Delete
	if !ok {
		w.renew(s)
	}
}
