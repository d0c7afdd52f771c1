package load

import (
	"runtime"
	"syscall"
	"time"
)

const (
	watchEvery    = 100 * time.Millisecond
	progressEvery = 200 * time.Millisecond
)

// Sums contains the numbers of operations so far.
type Sums struct {
	Operations int64 `json:"operations"` // objects of successful operations
	Errors     int64 `json:"errors"`     // objects of failed operations
	Bytes      int64 `json:"bytes"`
	Requests   int64 `json:"requests"`
	Open       int64 `json:"connections"`
}

// watch ends operations that had no activity for too long, and all operations at the end.
func (r *Run) watch(ended <-chan struct{}, progress func(Sums)) {
	silent, last := int64(r.job.TimeoutS*1e9), r.job.Ends()
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
			if !r.halt.Load() {
				r.hung.Store(true)
			}
			r.Stop() // repeatedly, because an operation may just have begun
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

// grow doubles the number of threads while all of them are fully used, and records when the maximum is reached.
// Unneeded threads would search for work and use CPU time of the server.
func (r *Run) grow(used, span int64) {
	threads := runtime.GOMAXPROCS(0)
	full := float64(used) > 0.8*float64(span)*float64(threads)
	r.full.Store(full && threads >= r.most)
	if full && threads < r.most {
		runtime.GOMAXPROCS(min(2*threads, r.most))
	}
}

// cpu returns the CPU time of this process in ns.
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

// Stop ends the run and aborts the operations in flight. They are recorded, as hung, only if the drain is over.
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
