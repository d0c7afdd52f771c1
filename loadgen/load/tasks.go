package load

import (
	"fmt"
	"math/rand/v2"

	"storelab/loadgen/job"
	"storelab/loadgen/ledger"
)

// task is an operation to do. number is the index in the job's objects, the number of the upload, or the number of
// objects of an operation on several objects.
type task struct {
	kind         int // index in the job's mix
	op           string
	number       int
	bucket       int
	key          string
	body         int
	from, to     int64
	many         []int // objects of a DELETE_MULTI
	write        byte  // kind for the ledger: ledger.New, Overwrite or Delete; 0: no entry
	generation   uint32
	stamp        []byte // replaces the first bytes of the body
	continuation string
	size         int64 // size of the object
	// For a mix: the object's place (-1 if it is removed), and whether an upload overwrites. For a listing: the folder, the
	// key after which the page begins, and the number of changes before it.
	slot          int
	over          bool
	prefix, after string
	since         int64
	mark          int
}

// source returns the next task of one operation for one worker, in a reused task; false after the last one.
type source func(*task) bool

// sources builds a source for each operation of the mix. Each worker has its own random order, from the seed.
func sources(j *job.Job, order []int32, pieces [][]int, worker int) []source {
	var out []source
	if j.Mixed() {
		return nil
	}
	for kind, o := range j.Operations {
		rng := rand.New(rand.NewPCG(j.Seed, uint64(worker)<<8|uint64(kind)))
		out = append(out, map[string]func(*job.Job, int, *rand.Rand) source{
			job.Put: puts, job.Get: reads(order), job.Head: reads(order), job.GetRange: ranges(order), job.Delete: deletes, job.List: lists,
			job.Multi: func(_ *job.Job, worker int, _ *rand.Rand) source { return multi(pieces, j, worker) },
		}[o.Op](j, worker, rng))
	}
	return out
}

// puts returns new keys, each once, in all places in turn: numbers worker, worker + workers, …
func puts(j *job.Job, worker int, _ *rand.Rand) source {
	n := worker - j.Workers
	if j.Named() {
		return named(j, worker)
	}
	return func(t *task) bool {
		n += j.Workers
		place := j.Uploads[(j.FirstPut+n)%len(j.Uploads)]
		t.number, t.bucket, t.key, t.body = n, place.Bucket, uploaded(place.Prefix, n), n%len(j.Bodies)
		t.write, t.generation = ledger.New, 1
		t.size = j.ObjectSize
		return true
	}
}

// named returns uploads of the job's objects, each once: the numbers worker, worker + workers, …
func named(j *job.Job, worker int) source {
	n := worker - j.Workers
	return func(t *task) bool {
		if n += j.Workers; n >= len(j.Objects.Key) {
			return false
		}
		t.number, t.bucket, t.key, t.body, t.size = n, j.Objects.Bucket[n], j.Objects.Key[n], j.Objects.Body[n], j.Objects.Size[n]
		return true
	}
}

// uploaded returns the key of an upload.
func uploaded(prefix string, number int) string { return fmt.Sprintf("%s%08d", prefix, number) }

// reads returns all objects repeatedly, each of them once in every turn. All workers share one shuffled order, so that
// they need no memory for separate orders. Each worker uses a different start and step, which are new in every turn.
func reads(order []int32) func(*job.Job, int, *rand.Rand) source {
	return func(j *job.Job, worker int, rng *rand.Rand) source {
		if j.Once {
			return once(j, order, worker)
		}
		n := len(order)
		at, step, done := 0, 1, n
		return func(t *task) bool {
			if done == n {
				at, step, done = rng.IntN(n), coprime(n, rng), 0
			}
			t.whole(j, int(order[at]))
			at, done = (at+step)%n, done+1
			return true
		}
	}
}

// once returns the objects worker, worker + workers, … of the shuffled order, and then ends.
func once(j *job.Job, order []int32, worker int) source {
	at := worker - j.Workers
	return func(t *task) bool {
		if at += j.Workers; at >= len(order) {
			return false
		}
		t.whole(j, int(order[at]))
		return true
	}
}

// whole sets the task to the whole object i of the job.
func (t *task) whole(j *job.Job, i int) {
	t.number, t.bucket, t.key, t.from, t.to = i, j.Objects.Bucket[i], j.Objects.Key[i], 0, j.ObjectSize
	t.size = j.ObjectSize
	if len(j.Objects.Body) > 0 {
		t.body = j.Objects.Body[i]
	}
}

// shuffled returns the order that all readers share.
func shuffled(j *job.Job) []int32 {
	order, rng := make([]int32, len(j.Objects.Key)), rand.New(rand.NewPCG(j.Seed, 0))
	for i := range order {
		order[i] = int32(i)
	}
	rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	return order
}

// coprime returns a random step that reaches all n places.
func coprime(n int, rng *rand.Rand) int {
	for {
		step := 1 + rng.IntN(n)
		a, b := step, n
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return step
		}
	}
}

// ranges returns one range of each object of `reads`, or all its ranges from its beginning to its end.
func ranges(order []int32) func(*job.Job, int, *rand.Rand) source {
	return func(j *job.Job, worker int, rng *rand.Rand) source {
		return rangesOf(j, reads(order)(j, worker, rng), rng)
	}
}

func rangesOf(j *job.Job, objects source, rng *rand.Rand) source {
	length, left := j.Range.Length, int64(0)
	return func(t *task) bool {
		if j.Range.Offset == "sequential" && left >= length {
			t.from, t.to, left = t.to, t.to+length, left-length
			return true
		}
		if !objects(t) {
			return false
		}
		switch j.Range.Offset {
		case "random":
			t.from = rng.Int64N(j.ObjectSize - length + 1)
		case "sequential":
			left = j.ObjectSize - length
		default:
			t.from = j.Range.Fixed()
		}
		t.to = t.from + length
		return true
	}
}

// deletes returns the objects worker, worker + workers, …
func deletes(j *job.Job, worker int, _ *rand.Rand) source {
	n := worker - j.Workers
	return func(t *task) bool {
		if n += j.Workers; n >= len(j.Objects.Key) {
			return false
		}
		t.number, t.bucket, t.key = n, j.Objects.Bucket[n], j.Objects.Key[n]
		return true
	}
}

// batches returns sequences of objects of one bucket, with the size of one request.
func batches(j *job.Job) [][]int {
	var out [][]int
	for i := range j.Objects.Key {
		if last := len(out) - 1; i > 0 && j.Objects.Bucket[i] == j.Objects.Bucket[i-1] && len(out[last]) < j.Batch {
			out[last] = append(out[last], i)
		} else {
			out = append(out, append(make([]int, 0, j.Batch), i))
		}
	}
	return out
}

func multi(pieces [][]int, j *job.Job, worker int) source {
	n := worker - j.Workers
	return func(t *task) bool {
		if n += j.Workers; n >= len(pieces) {
			return false
		}
		t.many, t.number, t.bucket = pieces[n], len(pieces[n]), j.Objects.Bucket[pieces[n][0]]
		return true
	}
}

// lists returns the pages of a bucket, and starts again after the last page. The operation sets where the next page
// begins.
func lists(j *job.Job, worker int, _ *rand.Rand) source {
	if len(j.Lists) > 0 {
		return folders(j, worker)
	}
	bucket := worker - 1
	return func(t *task) bool {
		if t.continuation == "" {
			bucket = (bucket + 1) % len(j.Buckets)
		}
		t.bucket = bucket
		return true
	}
}

// folders returns all folders in turn, without end. Workers begin with different folders.
func folders(j *job.Job, worker int) source {
	at := worker - 1
	return func(t *task) bool {
		at = (at + 1) % len(j.Lists)
		t.bucket, t.key = j.Lists[at].Bucket, j.Lists[at].Prefix
		return true
	}
}
