package load

import (
	"encoding/binary"
	"math/rand/v2"

	"storelab/loadgen/job"
	"storelab/loadgen/ledger"
)

// stampSize is the size of the stamp at the beginning of each written object, which identifies the write: 12 bytes of the
// job, the number of the key (8 bytes) and its generation (4 bytes), little-endian.
const stampSize = job.StampSize

// slot is a place for one object of a worker. After an operation with an unknown result, its key is not used again,
// because a late effect of this operation could change the result of later operations.
type slot struct {
	number     int // number of the key
	generation uint32
	there      bool
}

// rewriter gives one worker its tasks: it creates, overwrites and deletes objects in a bounded set of keys that only this
// worker uses.
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

// task returns the next operation. It uses a random slot: an empty slot is filled, another one overwritten or deleted.
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

// done records the result of the last task.
func (w *rewriter) done(ok bool) {
	s := &w.slots[w.at]
	s.there = w.last.write != ledger.Delete
	if !ok {
		w.renew(s)
	}
}
