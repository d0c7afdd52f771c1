// Package load contains the workers, which perform operations until the deadline and record the result of each.
package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"storelab/loadgen/job"
	"storelab/loadgen/ledger"
	"storelab/loadgen/records"
	"storelab/loadgen/sigv4"
)

const (
	buffersOfAll  = 64 << 20 // bytes for the buffers of long bodies, over all connections
	largestPiece  = 64 << 10 // fits into the cache of a core; with 1 MiB, GETs of 100 MB reached only 75 % of the rate
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
	pool    *population // population of a mix
	inParts bool
	piece   int
	most    int // maximum number of threads that run Go code

	// wallAt has the wall clock and the monotonic clock, read together once, so that a step of the wall clock does not
	// affect the records.
	wallAt time.Time
	offset int64 // offset of the coordinator's clock from this host's clock, ns
	ctx    context.Context
	cancel context.CancelFunc
	halt   atomic.Bool // do not begin further operations
	cut    atomic.Bool // operations in flight are not recorded any more
	hung   atomic.Bool // operations that are cut count as hung, because the drain is over
	full   atomic.Bool // all threads are fully used, so there is no spare CPU time

	dials, open, mostOpen, compared, differ atomic.Int64
	pages, keys, listBytes                  atomic.Int64 // of listings of whole folders
	turn                                    atomic.Int64 // round robin
	mu                                      sync.Mutex
	messages                                map[string]string // first message of each class
	book                                    *ledger.Book      // nil: no ledger
	broken                                  error             // reason why the run is invalid
}

// Summary contains the results that are not in the records.
type Summary struct {
	records.Totals
	Requests    map[string]int32  `json:"requests_per_operation"`
	Messages    map[string]string `json:"messages"`
	Hung        int64             `json:"hung"`      // in flight at the end of the drain
	HungS       float64           `json:"hung_s"`    // time until the deadline that workers spent on them
	NotBegun    int64             `json:"not_begun"` // open loop: due, but no worker was free
	Compared    int64             `json:"compared"`
	Differ      int64             `json:"differ"`
	Dials       int64             `json:"dials"`
	Connections int64             `json:"connections_max"`
	Threads     int               `json:"threads"`
	EndedNs     int64             `json:"ended_ns"`
	Pauses      Pauses            `json:"pauses"`
	Listed      Listed            `json:"listed"`
	Mixed       *Mixed            `json:"mixed,omitempty"`
}

// Listed contains the sums over listings of whole folders: pages, their keys, bytes of their XML.
type Listed struct {
	Pages int64 `json:"pages"`
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
}

// New prepares a run: it maps the bodies and creates targets and workers. It does not connect.
func New(j *job.Job) (*Run, error) {
	offset, err := clockOffset()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ClockOffset, err)
	}
	r := &Run{job: j, wallAt: time.Now(), offset: offset, messages: map[string]string{}}
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
		return nil, fmt.Errorf("endpoints: there are %d, but at most %d are possible", len(r.targets), records.MostEndpoints)
	}
	for _, name := range j.Bodies {
		body, err := mapped(name, j.ObjectSize)
		if err != nil {
			return nil, fmt.Errorf("bodies: %s: %w", name, err)
		}
		r.bodies = append(r.bodies, body)
	}
	r.plan = &records.Plan{Client: j.Client, MostSingle: j.MostSingle, BinNs: j.BinNs, Open: j.Rate > 0, Object: r.object}
	if r.plan.Sized = j.Mixed() || j.Named(); j.Mixed() {
		r.pool = newPopulation(r)
	}
	for _, o := range j.Operations {
		r.plan.Kinds = append(r.plan.Kinds, r.kind(o.Op))
	}
	r.keeper = records.NewKeeper(r.plan)
	if j.Ledger != "" {
		if r.book, err = ledger.Open(j.Ledger); err != nil {
			return nil, fmt.Errorf("ledger: %s: %w", j.Ledger, err)
		}
	}
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
	if op == job.List && len(r.job.Lists) > 0 {
		n, page := r.job.ListKeys, r.job.PageSize
		if page == 0 {
			page = mostOfPage
		}
		return records.Kind{Op: op, Requests: int32((n + page - 1) / page), Paged: true, Count: int64(n)}
	}
	if r.pool != nil { // a page counts as one operation, for any number of keys
		return records.Kind{Op: op, Requests: 1}
	}
	return records.Kind{Op: op, Requests: 1, Many: op == job.Multi || op == job.List}
}

// object returns the name of the object for an operation's number.
func (r *Run) object(kind, number int) string {
	if r.pool != nil {
		if r.job.Operations[kind].Op == job.List {
			return ""
		}
		return r.pool.key(number)
	}
	if (r.job.Operations[kind].Op != job.Put || r.job.Named()) && r.job.Rewrite == nil {
		return r.job.Objects.Key[number]
	}
	return uploaded(r.job.Uploads[(r.job.FirstPut+number)%len(r.job.Uploads)].Prefix, number)
}

// Connect opens all connections. An untrusted certificate is an error. If a server does not answer, Connect stops, and
// the operations report the error.
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

// now returns the time of the coordinator's clock. On another host, an environment variable has the clocks' difference.
func (r *Run) now() int64 { return r.wallAt.UnixNano() + r.offset + int64(time.Since(r.wallAt)) }

// ClockOffset is the name of the variable with the nanoseconds to add to this host's clock.
const ClockOffset = "STORELAB_CLOCK_OFFSET_NS"

func clockOffset() (int64, error) {
	text := os.Getenv(ClockOffset)
	if text == "" {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// payload returns the signature's payload hash of a body whose first bytes are replaced by the stamp.
func (r *Run) payload(body, stamp []byte) string {
	switch {
	case len(body) == 0:
		return sigv4.Empty
	case r.job.Payload == "sha256":
		sum := sha256.New()
		sum.Write(stamp)
		sum.Write(body[len(stamp):])
		return hex.EncodeToString(sum.Sum(nil))
	}
	return sigv4.Unsigned
}

// fail ends the run and marks it as invalid.
func (r *Run) fail(err error) {
	r.mu.Lock()
	if r.broken == nil {
		r.broken = err
	}
	r.mu.Unlock()
	r.Stop()
}

// Do works from the start to the deadline, and then waits for operations in flight for about `drain_s` at most. It calls
// progress repeatedly and at the end.
func (r *Run) Do(progress func(Sums)) Summary {
	r.plan.StartNs = r.job.StartNs
	for r.now() < r.job.StartNs {
		pause(r.job.StartNs - r.now())
	}
	due := newArrivals(r)
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() { w.work(due) })
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	pauses := Pauses{Longest: [][2]int64{}}
	var watching sync.WaitGroup
	watching.Go(func() { r.notePauses(ended, &pauses) })
	r.watch(ended, progress)
	watching.Wait()
	pauses.Late, pauses.LongestLateNs = due.late.count, due.late.longest
	out := Summary{Messages: r.messages, NotBegun: due.missed(), EndedNs: r.now(), Pauses: pauses, Requests: map[string]int32{}}
	for _, w := range r.workers {
		w.notes.Flush()
		if w.hungNs > 0 {
			out.Hung++
			out.HungS += float64(w.hungNs) / 1e9
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
	out.Listed = Listed{r.pages.Load(), r.keys.Load(), r.listBytes.Load()}
	if r.pool != nil {
		out.Mixed = r.pool.summary()
	}
	out.Threads = runtime.GOMAXPROCS(0)
	return out
}

// Write writes the records. It returns an error for an invalid run.
func (r *Run) Write(out *Summary) (err error) {
	if r.broken != nil {
		return r.broken
	}
	if out.Totals, err = r.keeper.Write(r.job.Records); err != nil {
		err = fmt.Errorf("records cannot be written: %w", err)
	}
	return err
}
