// Package load is the loop: workers that do operations until the deadline, and note what became of each.
package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"storelab/loadgen/job"
	"storelab/loadgen/records"
	"storelab/loadgen/sigv4"
)

const (
	watchEvery    = 100 * time.Millisecond
	progressEvery = 200 * time.Millisecond
	buffersOfAll  = 64 << 20 // bytes for the pieces of long bodies, of all connections together
	largestPiece  = 1 << 20
	smallestPiece = 32 << 10
)

// Run is one run of a job.
type Run struct {
	job     *job.Job
	plan    *records.Plan
	keeper  *records.Keeper
	targets []*target
	workers []*worker
	conns   []*conn
	bodies  [][]byte
	inParts bool
	piece   int
	most    int // threads that run Go code

	wallAt time.Time // wall clock and monotonic clock read together, once: a step of the wall clock does not reach the records
	ctx    context.Context
	cancel context.CancelFunc
	halt   atomic.Bool // begin no operation any more
	cut    atomic.Bool // what is in flight does not count any more

	dials, open, mostOpen, compared, differ atomic.Int64
	turn                                    atomic.Int64 // round robin
	mu                                      sync.Mutex
	messages                                map[string]string // first message of each class
}

// worker does one operation at a time.
type worker struct {
	run                       *Run
	number                    int
	lanes                     []*lane // by endpoint; nil where this worker does not use it
	sources                   []source
	tasks                     []task
	rng                       *rand.Rand
	notes                     *records.Worker
	objects, bytes, bad, asks atomic.Int64 // done, failed; operations
	busy                      atomic.Bool
	begun                     int64 // operations
}

// Sums is what has been done so far.
type Sums struct {
	Operations int64 `json:"operations"` // objects of operations that were done
	Errors     int64 `json:"errors"`     // objects of those that failed
	Bytes      int64 `json:"bytes"`
	Requests   int64 `json:"requests"`
	Open       int64 `json:"connections"`
}

// Summary is what the records do not say.
type Summary struct {
	records.Totals
	Requests    map[string]int32  `json:"requests_per_operation"`
	Messages    map[string]string `json:"messages"`
	CutOff      int64             `json:"cut_off"`   // in flight at the end
	NotBegun    int64             `json:"not_begun"` // open loop: due, and no worker was free
	Compared    int64             `json:"compared"`
	Differ      int64             `json:"differ"`
	Dials       int64             `json:"dials"`
	Connections int64             `json:"connections_max"`
	Threads     int               `json:"threads"`
	EndedNs     int64             `json:"ended_ns"`
}

// New prepares a run: bodies mapped, targets and workers there; nothing is connected yet.
func New(j *job.Job) (*Run, error) {
	r := &Run{job: j, wallAt: time.Now(), messages: map[string]string{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if r.most = runtime.NumCPU(); j.Threads > 0 {
		r.most = min(j.Threads, r.most)
	}
	runtime.GOMAXPROCS(1)
	r.inParts = j.PartSize > 0 && j.ObjectSize > j.PartSize
	for _, e := range j.Endpoints {
		t, err := newTarget(e)
		if err != nil {
			return nil, err
		}
		r.targets = append(r.targets, t)
	}
	if len(r.targets) > records.MostEndpoints {
		return nil, fmt.Errorf("endpoints: %d of them; at most %d", len(r.targets), records.MostEndpoints)
	}
	for _, name := range j.Bodies {
		body, err := mapped(name, j.ObjectSize)
		if err != nil {
			return nil, fmt.Errorf("bodies: %s: %w", name, err)
		}
		r.bodies = append(r.bodies, body)
	}
	r.plan = &records.Plan{Client: j.Client, MostSingle: j.MostSingle, Open: j.Rate > 0, Object: r.object}
	for _, o := range j.Operations {
		r.plan.Kinds = append(r.plan.Kinds, r.kind(o.Op))
	}
	r.keeper = records.NewKeeper(r.plan)
	r.addWorkers()
	r.piece = max(smallestPiece, min(largestPiece, buffersOfAll/len(r.conns)))
	return r, nil
}

func mapped(name string, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_POPULATE)
}

func (r *Run) kind(op string) records.Kind {
	parts := int32(1)
	if r.inParts {
		parts = int32((r.job.ObjectSize + r.job.PartSize - 1) / r.job.PartSize)
	}
	switch op {
	case job.Put:
		if r.inParts {
			parts += 2
		}
		return records.Kind{Op: op, Bytes: r.job.ObjectSize, Requests: parts}
	case job.Get:
		return records.Kind{Op: op, Bytes: r.job.ObjectSize, Requests: parts}
	case job.GetRange:
		return records.Kind{Op: op, Bytes: r.job.Range.Length, Requests: 1}
	}
	return records.Kind{Op: op, Requests: 1, Many: op == job.Multi || op == job.List}
}

// object names what an operation's number stands for.
func (r *Run) object(kind, number int) string {
	if r.job.Operations[kind].Op != job.Put {
		return r.job.Objects.Key[number]
	}
	return fmt.Sprintf("%s%08d", r.job.Uploads[(r.job.FirstPut+number)%len(r.job.Uploads)].Prefix, number)
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
		w.sources = sources(j, order, pieces, i)
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

// Connect dials all connections. An untrusted certificate is an error; a server that does not answer is one of the operations to come, and then
// no further one is dialled here.
func (r *Run) Connect() error {
	var all sync.WaitGroup
	var silent atomic.Bool
	next := make(chan *conn)
	failed := make(chan error, 1)
	for range 16 {
		all.Go(func() {
			for c := range next {
				if silent.Load() {
					continue
				}
				if _, err := c.connect(); err != nil {
					silent.Store(true)
					if untrusted(err) {
						select {
						case failed <- fmt.Errorf("endpoint %s: its certificate is not trusted: %w", c.target.host, err):
						default:
						}
					}
				}
				c.last = r.now()
			}
		})
	}
	for _, c := range r.conns {
		next <- c
	}
	close(next)
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (r *Run) wall() time.Time { return r.wallAt.Add(time.Since(r.wallAt)) }

func (r *Run) now() int64 { return r.wallAt.UnixNano() + int64(time.Since(r.wallAt)) }

func (r *Run) payload(body []byte) string {
	switch {
	case len(body) == 0:
		return sigv4.Empty
	case r.job.Payload == "sha256":
		sum := sha256.Sum256(body)
		return hex.EncodeToString(sum[:])
	}
	return sigv4.Unsigned
}

// Stop begins no operation any more and gives up what is in flight: it is counted as cut off.
func (r *Run) Stop() {
	r.halt.Store(true)
	r.cut.Store(true)
	r.cancel()
	for _, c := range r.conns {
		if since := c.alive.Load(); since > 0 {
			c.abort(since)
		}
	}
}

// Do works from the start to the deadline, and at most `drain_s` and a moment longer. progress is called now and then, and at the end.
func (r *Run) Do(progress func(Sums)) Summary {
	r.plan.StartNs = r.job.StartNs
	for r.now() < r.job.StartNs {
		pause(r.job.StartNs - r.now())
	}
	due := &arrivals{run: r}
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() { w.work(due) })
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	r.watch(ended, progress)
	out := Summary{Messages: r.messages, NotBegun: due.missed(), EndedNs: r.now(), Requests: map[string]int32{}}
	for _, w := range r.workers {
		w.notes.Flush()
		if w.busy.Load() {
			out.CutOff++
		}
	}
	for _, c := range r.conns {
		c.close()
	}
	for _, k := range r.plan.Kinds {
		out.Requests[k.Op] = k.Requests
	}
	progress(r.sums())
	out.Compared, out.Differ, out.Dials, out.Connections = r.compared.Load(), r.differ.Load(), r.dials.Load(), r.mostOpen.Load()
	out.Threads = runtime.GOMAXPROCS(0)
	return out
}

// Write writes the records.
func (r *Run) Write(out *Summary) (err error) {
	out.Totals, err = r.keeper.Write(r.job.Records)
	return err
}

// watch ends what is silent for too long, and at the end all.
func (r *Run) watch(ended <-chan struct{}, progress func(Sums)) {
	silent, last := int64(r.job.TimeoutS*1e9), r.job.DeadlineNs+int64(r.job.DrainS*1e9)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	told, used, seen := time.Now(), cpu(), r.now()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		now := r.now()
		spent := cpu()
		r.grow(spent-used, now-seen)
		used, seen = spent, now
		if now >= last || r.halt.Load() {
			r.Stop() // again and again: an operation may just have begun
			continue
		}
		for _, c := range r.conns {
			if since := c.alive.Load(); since > 0 && now-since > silent {
				c.abort(since)
			}
		}
		if time.Since(told) >= progressEvery {
			told = time.Now()
			progress(r.sums())
		}
	}
}

// grow doubles the threads while those there are fully used: more than are needed look for work, and take the server's CPU for it.
func (r *Run) grow(used, span int64) {
	if threads := runtime.GOMAXPROCS(0); threads < r.most && float64(used) > 0.8*float64(span)*float64(threads) {
		runtime.GOMAXPROCS(min(2*threads, r.most))
	}
}

// cpu is the CPU time of this process so far, in ns.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func (r *Run) sums() Sums {
	out := Sums{Open: r.open.Load()}
	for _, w := range r.workers {
		out.Operations += w.objects.Load()
		out.Errors += w.bad.Load()
		out.Bytes += w.bytes.Load()
		out.Requests += w.asks.Load()
	}
	return out
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
		verify := r.job.Verify > 0 && len(r.bodies) > 0 && w.begun%int64(r.job.Verify) == 0
		w.begun++
		w.busy.Store(true)
		r.targets[endpoint].busy.Add(1)
		begun := r.now()
		got, err := r.do(l, t, verify)
		ended := r.now()
		r.targets[endpoint].busy.Add(-1)
		if r.cut.Load() {
			return // busy: counted as cut off
		}
		w.busy.Store(false)
		w.note(t, &got, err, begun, ended, at, endpoint)
	}
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
	count := int64(1)
	if kind.Many {
		o.Object = got.number
		if t.op == job.Multi {
			o.Object = t.number
		}
		count = int64(o.Object)
	}
	w.asks.Add(int64(kind.Requests))
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
		w.bad.Add(count)
	} else {
		w.objects.Add(count)
		w.bytes.Add(kind.Bytes)
	}
	w.notes.Note(&o)
}

// short is a message that fits a record.
func short(s string) string {
	return strings.ToValidUTF8(s[:min(300, len(s))], "?")
}

// task is the next one, of an operation drawn by the shares of the mix; nil where all have come to their end.
func (w *worker) task() *task {
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

// lane is where the next operation goes.
func (w *worker) lane() (*lane, int) {
	r := w.run
	at := 0
	switch n := len(w.lanes); r.job.Balance {
	case "worker":
		at = w.number % n
	case "round_robin":
		at = int((r.turn.Add(1) - 1) % int64(n))
	case "least_load":
		at = (w.number + int(w.begun)) % n // among equals in turn
		for i := 1; i < n; i++ {
			if other := (at + i) % n; r.targets[other].busy.Load() < r.targets[at].busy.Load() {
				at = other
			}
		}
	}
	return w.lanes[at], at
}
