package load

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// arrivals decides when operations begin: when a worker is free, or, in an open loop, when they are due. A late worker
// takes the oldest due operation. Its latency counts from its due time (G. Tene's "coordinated omission"; wrk2).
type arrivals struct {
	run    *Run
	taken  atomic.Int64
	begun  atomic.Int64
	late   lateness
	chance *chance // Poisson arrivals; nil: evenly spaced arrivals
}

func newArrivals(r *Run) *arrivals {
	a := &arrivals{run: r}
	if j := r.job; j.Rate > 0 && j.Arrivals == "poisson" {
		a.chance = &chance{rng: rand.New(rand.NewPCG(j.Seed, 1<<34)), mean: float64(j.RateStride) * 1e9 / j.Rate, span: j.DeadlineNs - j.StartNs}
	}
	return a
}

// chance is a Poisson process: gaps between arrivals are independent and exponential. The processes of several clients,
// each with its part of the rate, together are a Poisson process with the whole rate.
type chance struct {
	mu   sync.Mutex
	rng  *rand.Rand
	mean float64 // mean gap, ns
	at   float64 // time of the last arrival, ns after the start
	span int64   // time from the start to the deadline, ns
	due  int64   // number of arrivals so far that were due in this time
}

func (c *chance) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += c.rng.ExpFloat64() * c.mean
	if int64(c.at) < c.span {
		c.due++
	}
	return int64(c.at)
}

// before returns the number of arrivals before the time `end`, including those that no worker took.
func (c *chance) before(end int64) int64 {
	for int64(c.at) < end {
		c.next()
	}
	if int64(c.at) < c.span { // the last arrival was after an early end
		return c.due - 1
	}
	return c.due
}

func (a *arrivals) take() int64 {
	if a.chance != nil {
		a.taken.Add(1)
		return a.run.job.StartNs + a.chance.next()
	}
	return a.due(a.taken.Add(1) - 1)
}

func (a *arrivals) due(n int64) int64 {
	j := a.run.job
	return j.StartNs + int64(float64(j.RateFirst+n*j.RateStride)*1e9/j.Rate)
}

// next waits for the next operation and returns its due time (0 in a closed loop). It returns false after the deadline.
func (a *arrivals) next() (int64, bool) {
	j := a.run.job
	if j.Rate == 0 {
		return 0, a.run.now() < j.DeadlineNs
	}
	due := a.take()
	if due >= j.DeadlineNs {
		return 0, false
	}
	now := a.run.now()
	free := now < due
	for ; now < due && !a.run.halt.Load(); now = a.run.now() {
		pause(min(due-now, 1e8))
	}
	if now >= j.DeadlineNs {
		return 0, false
	}
	a.begun.Add(1)
	if free {
		a.late.note(now - due)
	}
	return due, true
}

// missed returns the number of operations that were due before the deadline (or an early end) and never began.
func (a *arrivals) missed() int64 {
	j := a.run.job
	if j.Rate == 0 {
		return 0
	}
	end, n := min(j.DeadlineNs, a.run.now()), int64(0)
	if a.chance != nil {
		return max(0, a.chance.before(end-j.StartNs)-a.begun.Load())
	}
	if a.due(0) < end {
		n = int64(float64(end-1-j.StartNs)*j.Rate/1e9-float64(j.RateFirst))/j.RateStride + 1
		for a.due(n-1) >= end { // corrects the rounding of the quotient
			n--
		}
	}
	return max(0, n-a.begun.Load())
}

// pause sleeps in the kernel for exactly this number of ns, because timers of the Go runtime can be 1 ms late on an idle
// machine. The kernel adds 50 µs, unless a thread disables this. Only the sleeping thread disables it. If all threads
// did, the monitor thread of the Go runtime would wake three times as often.
func pause(ns int64) {
	if ns <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const prSetTimerslack, exact, usual = 29, 1, 0
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, exact, 0)
	t := syscall.NsecToTimespec(ns)
	_ = syscall.Nanosleep(&t, nil)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, usual, 0)
}
