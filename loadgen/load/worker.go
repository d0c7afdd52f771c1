package load

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"

	"storelab/loadgen/job"
	"storelab/loadgen/ledger"
	"storelab/loadgen/records"
	"storelab/loadgen/sigv4"
)

// worker does one operation at a time.
type worker struct {
	run                       *Run
	number                    int
	lanes                     []*lane // by endpoint; nil if this worker does not use it
	sources                   []source
	tasks                     []task
	rng                       *rand.Rand
	notes                     *records.Worker
	objects, bytes, bad, asks atomic.Int64 // done, failed; operations
	begun                     int64        // operations
	gets                      int64        // number of GETs of a mix
	compare                   int64        // turn of the next answer that is compared in spare CPU time
	hungNs                    int64        // time from the begin of a hung operation to the deadline; 0: no hung operation
	page                      *ledger.Writer
	rewrite                   *rewriter // instead of sources
}

func (r *Run) addWorkers() {
	j := r.job
	order, pieces := shuffled(j), [][]int(nil)
	if j.Has(job.Multi) {
		pieces = batches(j)
	}
	for i := range j.Workers {
		w := &worker{run: r, number: i, lanes: make([]*lane, len(r.targets)), notes: r.keeper.Worker(i)}
		w.rng = rand.New(rand.NewPCG(j.Seed, ^uint64(i)))
		if j.Rewrite != nil {
			w.rewrite = newRewriter(j, i)
		} else {
			w.sources = sources(j, order, pieces, i)
		}
		if r.book != nil {
			w.page = r.book.Writer(i)
		}
		for kind, o := range j.Operations {
			w.tasks = append(w.tasks, task{kind: kind, op: o.Op})
		}
		for at, t := range r.targets {
			if j.Balance == "worker" && at != i%len(r.targets) {
				continue
			}
			w.lanes[at] = r.newLane(t)
		}
		r.workers = append(r.workers, w)
	}
}

func (r *Run) newLane(t *target) *lane {
	connections := 1
	if r.inParts {
		connections = r.job.Parallel
	}
	l := &lane{}
	for range connections {
		sign := &sigv4.Signer{
			Access: os.Getenv("AWS_ACCESS_KEY_ID"), Secret: os.Getenv("AWS_SECRET_ACCESS_KEY"), Token: os.Getenv("AWS_SESSION_TOKEN"), Region: t.region,
		}
		c := &conn{run: r, target: t, sign: sign}
		l.parts = append(l.parts, c)
		r.conns = append(r.conns, c)
	}
	l.main = l.parts[0]
	return l
}

func (w *worker) work(due *arrivals) {
	r := w.run
	for {
		at, ok := due.next()
		if !ok || r.halt.Load() {
			return
		}
		t := w.task()
		if t == nil {
			return
		}
		l, endpoint := w.lane()
		verify := w.compares(t)
		w.begun++
		r.targets[endpoint].busy.Add(1)
		begun := r.now()
		if !w.noted(t, begun) {
			return
		}
		got, err := r.do(l, t, verify)
		ended := r.now()
		w.ended(t, err == nil, ended)
		r.targets[endpoint].busy.Add(-1)
		if r.cut.Load() {
			if r.hung.Load() {
				w.hungNs = max(1, r.job.DeadlineNs-begun)
				w.note(t, &outcome{number: got.number}, errHung, begun, r.job.Ends(), at, endpoint)
			}
			return
		}
		if r.pool != nil {
			r.pool.done(t, err)
		}
		w.note(t, &got, err, begun, ended, at, endpoint)
	}
}

// enough answers detect, with a probability of 95 %, that 1 % of all are wrong (0.99^299 = 0.05).
const enough = 300

// compares returns whether the answer is compared with the object's content. This is done for the first answer and every
// n-th answer. While there is spare CPU time, further answers are compared, so that `enough` of them are spread over a
// run of any length.
func (w *worker) compares(t *task) bool {
	r, every := w.run, int64(w.run.job.Verify)
	if every == 0 || len(r.bodies) == 0 || (t.op != job.Get && t.op != job.GetRange) {
		return false
	}
	turn := w.turn(t)
	if turn%every == 0 {
		return true
	}
	if turn < w.compare || r.full.Load() {
		return false
	}
	w.compare = turn + max(1, min(every, turn*int64(len(r.workers))/enough))
	return true
}

// noted records the operation in the ledger before its request is sent. If that fails, the run ends.
func (w *worker) noted(t *task, now int64) bool {
	if w.page == nil || t.write == 0 {
		return true
	}
	if err := w.page.Begin(t.number, t.generation, t.write, now); err != nil {
		w.run.fail(fmt.Errorf("the ledger cannot be written: %w", err))
		return false
	}
	return true
}

// ended records in the ledger that an operation was acknowledged, before the next one begins.
func (w *worker) ended(t *task, ok bool, now int64) {
	if ok && w.page != nil && t.write != 0 {
		w.page.Ack(now)
	}
	if w.rewrite != nil {
		w.rewrite.done(ok)
	}
}

// turn returns the number of an operation, from which it is decided whether it is the n-th; in a mix, only GETs count.
func (w *worker) turn(t *task) int64 {
	if w.run.pool == nil {
		return w.begun
	}
	if t.op == job.Get {
		w.gets++
	}
	return w.gets - 1
}

func (w *worker) note(t *task, got *outcome, err error, begun, ended, due int64, endpoint int) {
	r := w.run
	start := r.job.StartNs
	o := records.Op{Start: max(0, begun-start), Lasted: ended - begun, Kind: t.kind, Object: t.number, Status: got.status, Endpoint: endpoint}
	if due != 0 {
		o.Due = due - start
	}
	if got.first != 0 {
		o.First = got.first - begun
	}
	kind := &r.plan.Kinds[t.kind]
	if r.plan.Sized && (t.op == job.Put || t.op == job.Get) {
		o.Size = t.size
	}
	count, asked := max(1, kind.Count), int64(kind.Requests)
	if kind.Paged {
		o.Object, asked = got.number, int64(got.number)
	}
	if kind.Many {
		o.Object = got.number
		if t.op == job.Multi {
			o.Object = t.number
		} else if err != nil {
			o.Object = 1 // the listing itself
		}
		count = int64(o.Object)
	}
	w.asks.Add(asked)
	if err != nil {
		class, status := classify(err)
		if status != 0 {
			o.Status = status
		}
		o.Class, o.First = r.plan.Class(class), 0
		r.mu.Lock()
		if _, known := r.messages[class]; !known {
			r.messages[class] = short(err.Error())
		}
		r.mu.Unlock()
		if class != classHung { // the limits do not apply after the deadline
			w.bad.Add(count)
		}
	} else {
		w.objects.Add(count)
		w.bytes.Add(r.plan.Useful(&o))
	}
	w.notes.Note(&o)
}

// short cuts a message to the length that a record can store.
func short(s string) string {
	return strings.ToValidUTF8(s[:min(300, len(s))], "?")
}

// task returns the next task. Its operation is drawn by the shares of the mix. It returns nil if all are finished.
func (w *worker) task() *task {
	if w.rewrite != nil {
		return w.rewrite.task()
	}
	if w.run.pool != nil {
		return w.run.pool.task(w)
	}
	total := 0.0
	for kind, o := range w.run.job.Operations {
		if w.sources[kind] != nil {
			total += o.Share
		}
	}
	for total > 0 {
		draw, chosen := w.rng.Float64()*total, -1
		for kind, o := range w.run.job.Operations {
			if w.sources[kind] != nil {
				chosen = kind
				if draw -= o.Share; draw < 0 {
					break
				}
			}
		}
		if w.sources[chosen](&w.tasks[chosen]) {
			return &w.tasks[chosen]
		}
		w.sources[chosen] = nil
		total -= w.run.job.Operations[chosen].Share
		if len(w.run.job.Operations) == 1 {
			return nil
		}
	}
	return nil
}

// lane returns the lane of the next operation.
func (w *worker) lane() (*lane, int) {
	r := w.run
	at := 0
	switch n := len(w.lanes); r.job.Balance {
	case "worker":
		at = w.number % n
	case "round_robin":
		at = int((r.turn.Add(1) - 1) % int64(n))
	case "least_load":
		at = (w.number + int(w.begun)) % n // in turn, if several are equal
		for i := 1; i < n; i++ {
			if other := (at + i) % n; r.targets[other].busy.Load() < r.targets[at].busy.Load() {
				at = other
			}
		}
	}
	return w.lanes[at], at
}
