package load

import (
	"sync"
	"time"
)

const (
	pauseTick  = 10 * time.Millisecond
	pauseFrom  = 20 * time.Millisecond
	mostPauses = 100
)

// Pauses are times in which this program did not run although its clock should have ticked, because the host was
// suspended or used its cores for other programs. The store was not observed during a pause.
type Pauses struct {
	Count     int64      `json:"count"`
	SumNs     int64      `json:"sum_ns"`
	LongestNs int64      `json:"longest_ns"`
	Longest   [][2]int64 `json:"longest"` // begin (UTC ns) and length of the longest pauses, sorted by begin
	// Operations of an open loop that began late although their worker waited for them.
	Late          int64 `json:"late_begins"`
	LongestLateNs int64 `json:"late_begin_longest_ns"`
}

func (p *Pauses) add(begin, length int64) {
	p.Count++
	p.SumNs += length
	p.LongestNs = max(p.LongestNs, length)
	if len(p.Longest) < mostPauses {
		p.Longest = append(p.Longest, [2]int64{begin, length})
		return
	}
	least := 0
	for i := range p.Longest {
		if p.Longest[i][1] < p.Longest[least][1] {
			least = i
		}
	}
	if p.Longest[least][1] < length {
		p.Longest = append(append(p.Longest[:least:least], p.Longest[least+1:]...), [2]int64{begin, length})
	}
}

// tick records a pause if the time since the last tick is long enough.
func (p *Pauses) tick(now int64, since time.Duration) {
	if late := since - pauseTick; late >= pauseFrom {
		p.add(now-int64(late), int64(late))
	}
}

// notePauses runs a clock until `ended`, and records each late tick.
func (r *Run) notePauses(ended <-chan struct{}, into *Pauses) {
	tick := time.NewTicker(pauseTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		now := time.Now()
		into.tick(r.now(), now.Sub(last))
		last = now
	}
}

// lateness collects the delays of operations that began late although their worker waited for them.
type lateness struct {
	mu      sync.Mutex
	count   int64
	longest int64
}

func (l *lateness) note(late int64) {
	if late < int64(pauseFrom) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.longest = max(l.longest, late)
}
