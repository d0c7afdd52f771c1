package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"storelab/loadgen/job"
)

// object is one slot of a population. number is the number of the upload that determines its name.
type object struct {
	number  int
	size    int64
	version int   // number of overwrites
	since   int64 // stamp of its last change
	at      int   // index in `ready`; -1: it is being written or deleted, or the slot is empty
	readers int
}

// population is the set of objects of a mix. It assigns an object to each operation, so that no operation uses an object
// that another one deletes or overwrites at the same time, and it checks the answers. After a failed operation, it is not
// known whether the object exists. It is not read any more, and a later DELETE removes it.
type population struct {
	run     *Run
	mu      sync.Mutex
	deck    *deck
	sizes   *sizer
	rng     *rand.Rand
	slots   []object
	ready   []int // slots with existing objects
	empty   []int
	where   map[int]int      // number -> slot
	left    []int            // numbers of objects of failed operations, which may exist
	doubted map[int]struct{} // all numbers that were ever in `left`
	next    int              // number of the next new object
	stamp   int64            // counts changes
	listing int              // listings in flight
	deleted []int            // numbers deleted while listings are in flight
	place   int              // place of the next listing
	over    int64
}

// Mixed is the summary of a mix.
type Mixed struct {
	There       int              `json:"there"`       // number of objects at the end
	Left        int              `json:"left"`        // number of objects of failed operations, which may exist
	New         int              `json:"new"`         // number of names given to uploads
	Overwritten int64            `json:"overwritten"` // uploads to existing names
	Lost        map[string]int64 `json:"lost"`        // operations of the mix that were never possible
}

const mostDoubted = 1_000_000

func newPopulation(r *Run) *population {
	j := r.job
	shares := make([]float64, len(j.Operations))
	for i, o := range j.Operations {
		shares[i] = o.Share
	}
	p := &population{
		run: r, deck: newDeck(shares, rand.New(rand.NewPCG(j.Seed, 1<<32))), sizes: newSizer(*j.Sizes), rng: rand.New(rand.NewPCG(j.Seed, 1<<33)),
		slots: make([]object, j.Population.Most), where: map[int]int{}, doubted: map[int]struct{}{}, next: len(j.Population.Start),
	}
	for i := range p.slots {
		p.slots[i].at = -1
		if i < p.next {
			p.slots[i].number, p.slots[i].size = i, j.Population.Start[i]
			p.where[i] = i
			p.restore(i)
		}
	}
	for i := len(p.slots) - 1; i >= p.next; i-- {
		p.empty = append(p.empty, i)
	}
	return p
}

func (p *population) upload(n int) job.Upload {
	return p.run.job.Uploads[(p.run.job.FirstPut+n)%len(p.run.job.Uploads)]
}

func (p *population) key(n int) string { return uploaded(p.upload(n).Prefix, n) }

// restore adds a slot to the ready slots, and hold removes it.
func (p *population) restore(slot int) {
	p.slots[slot].at = len(p.ready)
	p.ready = append(p.ready, slot)
}

func (p *population) hold(slot int) {
	at, last := p.slots[slot].at, len(p.ready)-1
	p.ready[at] = p.ready[last]
	p.slots[p.ready[at]].at = at
	p.ready = p.ready[:last]
	p.slots[slot].at = -1
}

// idle returns a slot that is not being read; -1 if there is none.
func (p *population) idle() int {
	for range min(16, len(p.ready)) {
		if slot := p.ready[p.rng.IntN(len(p.ready))]; p.slots[slot].readers == 0 {
			return slot
		}
	}
	for _, slot := range p.ready {
		if p.slots[slot].readers == 0 {
			return slot
		}
	}
	return -1
}

// task returns the next operation of the mix; nil if the run ended while no operation was possible.
func (p *population) task(w *worker) *task {
	for !p.run.halt.Load() {
		p.mu.Lock()
		kind := p.deck.deal(func(kind int) bool { return p.give(&w.tasks[kind]) })
		p.mu.Unlock()
		if kind >= 0 {
			return &w.tasks[kind]
		}
		if p.run.now() >= p.run.job.DeadlineNs {
			return nil
		}
		pause(1e6)
	}
	return nil
}

// give assigns an object to a task; false if no object is available now.
func (p *population) give(t *task) bool {
	switch t.op {
	case job.Get, job.Head:
		if len(p.ready) == 0 {
			return false
		}
		t.slot = p.ready[p.rng.IntN(len(p.ready))]
		p.slots[t.slot].readers++
	case job.Put:
		return p.givePut(t)
	case job.Delete:
		if t.slot = -1; len(p.left) > 0 {
			t.number, p.left = p.left[0], p.left[1:]
			t.bucket, t.key, t.size = p.upload(t.number).Bucket, p.key(t.number), 0
			return true
		}
		if t.slot = p.idle(); t.slot < 0 {
			return false
		}
		p.hold(t.slot)
	case job.List:
		p.giveList(t)
		return true
	}
	o := &p.slots[t.slot]
	t.number, t.size, t.body = o.number, o.size, (o.number+o.version)%len(p.run.bodies)
	t.bucket, t.key = p.upload(o.number).Bucket, p.key(o.number)
	return true
}

// givePut assigns a new name if the maximum is not reached, otherwise an object to overwrite.
func (p *population) givePut(t *task) bool {
	if last := len(p.empty) - 1; last >= 0 {
		t.slot, p.empty = p.empty[last], p.empty[:last]
		t.over = len(p.left) >= len(p.slots) // so that at most twice the maximum can exist
		if t.over {
			t.number, p.left = p.left[0], p.left[1:]
		} else {
			t.number, p.next = p.next, p.next+1
		}
		p.slots[t.slot] = object{number: t.number, at: -1}
		p.where[t.number] = t.slot
	} else {
		if t.slot = p.idle(); t.slot < 0 {
			return false
		}
		p.hold(t.slot)
		p.slots[t.slot].version++
		t.number, t.over = p.slots[t.slot].number, true
	}
	if t.over {
		p.over++
	}
	t.size, t.body = p.sizes.draw(p.rng), (t.number+p.slots[t.slot].version)%len(p.run.bodies)
	t.bucket, t.key = p.upload(t.number).Bucket, p.key(t.number)
	return true
}

// done records the result of an operation.
func (p *population) done(t *task, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stamp++
	switch t.op {
	case job.Get, job.Head:
		p.slots[t.slot].readers--
	case job.Put:
		if err != nil {
			p.abandon(t)
			return
		}
		p.slots[t.slot].size, p.slots[t.slot].since = t.size, p.stamp
		p.restore(t.slot)
	case job.Delete:
		if err != nil {
			p.abandon(t)
			return
		}
		if p.listing > 0 {
			p.deleted = append(p.deleted, t.number)
		}
		if t.slot >= 0 {
			p.vacate(t)
		}
	case job.List:
		if p.listing--; p.listing == 0 {
			p.deleted = nil
		}
	}
}

func (p *population) vacate(t *task) {
	delete(p.where, t.number)
	p.empty = append(p.empty, t.slot)
}

// abandon records that the state of an object is not known.
func (p *population) abandon(t *task) {
	if t.slot >= 0 {
		p.vacate(t)
	}
	p.left = append(p.left, t.number)
	if len(p.doubted) < mostDoubted {
		p.doubted[t.number] = struct{}{}
	}
}

func (p *population) summary() *Mixed {
	out := &Mixed{There: len(p.ready), Left: len(p.left), New: p.next - len(p.run.job.Population.Start), Overwritten: p.over, Lost: map[string]int64{}}
	for kind, n := range p.deck.lost {
		if n > 0 {
			out.Lost[p.run.job.Operations[kind].Op] += n
		}
	}
	return out
}

// giveList assigns a page of the folder of one place, starting after a random object.
func (p *population) giveList(t *task) {
	places := p.run.job.Uploads
	place := places[p.place%len(places)]
	p.place++
	t.bucket, t.prefix, t.after = place.Bucket, place.Prefix, ""
	if len(p.ready) > 0 {
		if n := p.slots[p.ready[p.rng.IntN(len(p.ready))]].number; n > 0 {
			t.after = uploaded(place.Prefix, n-1)
		}
	}
	p.stamp++
	t.since, t.mark = p.stamp, len(p.deleted)
	p.listing++
}

// listed is a key of a page.
type listed struct {
	key  string
	size int64
}

// holds compares a page with the existing objects: all keys of the folder after t.after, or the first of them.
func (p *population) holds(t *task, page []listed, more bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, seen := t.after, make(map[int]bool, len(page))
	for _, l := range page {
		n := p.numbered(t, l.key)
		switch {
		case n < 0 || l.key <= t.after:
			return wrongf("KeyForeign", "%.200q was never put there", l.key)
		case l.key == last:
			return wrongf("KeyDoubled", "%.200q is listed twice", l.key)
		case l.key < last:
			return wrongf("KeyOrder", "%.200q is listed after a later key", l.key)
		}
		last, seen[n] = l.key, true
		slot, there := p.where[n]
		if o := (*object)(nil); there {
			if o = &p.slots[slot]; p.untouched(o, t) && o.size != l.size {
				return wrongf("KeySize", "%.200q has %d B instead of %d B", l.key, l.size, o.size)
			}
			continue
		}
		if _, doubted := p.doubted[n]; !doubted && len(p.doubted) < mostDoubted && !slices.Contains(p.deleted[t.mark:], n) {
			return wrongf("KeyDeleted", "%.200q was deleted before the listing began", l.key)
		}
	}
	if missing := p.missing(t, last, more, seen); missing != "" {
		return wrongf("KeyMissing", "%.200q is missing", missing)
	}
	return nil
}

// missing returns a key that is missing in a page; "" if there is none. The object existed during the whole listing, and
// its key is after t.after and, if more pages follow, before the last key. Names with more than eight digits are not
// checked, because their order differs from that of their numbers.
func (p *population) missing(t *task, last string, more bool, seen map[int]bool) string {
	first, end, folder := 0, p.next, job.Upload{Bucket: t.bucket, Prefix: t.prefix}
	if p.next > 1e8 {
		return ""
	}
	if t.after != "" {
		first = digits(t.after[len(t.prefix):]) + 1
	}
	if more && last != "" {
		end = digits(last[len(t.prefix):])
	}
	lacks := func(slot int) bool {
		o := &p.slots[slot]
		return o.number >= first && o.number < end && !seen[o.number] && p.untouched(o, t) && p.upload(o.number) == folder
	}
	if end-first > len(p.ready) {
		for _, slot := range p.ready {
			if lacks(slot) {
				return p.key(p.slots[slot].number)
			}
		}
		return ""
	}
	for n := first; n < end; n++ {
		if slot, there := p.where[n]; there && lacks(slot) {
			return p.key(n)
		}
	}
	return ""
}

// untouched returns whether the object has not changed since the listing began.
func (p *population) untouched(o *object, t *task) bool { return o.at >= 0 && o.since < t.since }

// numbered returns the number of a key in the listed folder; -1 if this number was not used.
func (p *population) numbered(t *task, key string) int {
	text, found := strings.CutPrefix(key, t.prefix)
	n := digits(text)
	if !found || n < 0 || n >= p.next || p.key(n) != key || p.upload(n) != (job.Upload{Bucket: t.bucket, Prefix: t.prefix}) {
		return -1
	}
	return n
}

// digits converts a text of digits into a number; -1 for other texts.
func digits(text string) int {
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return -1
	}
	return int(n)
}

// listPart lists one page of a folder of a mix.
func (r *Run) listPart(c *conn, t *task, bucket string) (outcome, error) {
	most := r.job.PageSize
	if most == 0 {
		most = mostOfPage
	}
	query := fmt.Sprintf("list-type=2&max-keys=%d&prefix=%s", most, escaped(t.prefix))
	if t.after != "" {
		query += "&start-after=" + escaped(t.after)
	}
	a, err := r.asked(c, &request{method: "GET", bucket: bucket, query: query}, nil, true)
	out := outcome{status: a.status, first: a.first}
	if err != nil {
		return out, err
	}
	var page []listed
	token, keys, err := readPage(a.body, func(key []byte, size int64) error {
		page = append(page, listed{string(key), size})
		return nil
	})
	r.pages.Add(1)
	r.keys.Add(int64(keys))
	r.listBytes.Add(a.size)
	switch {
	case err != nil:
		return out, wrongf("WrongAnswer", "%v", err)
	case keys > most:
		return out, wrongf("PageTooLong", "%d keys in a page, at most %d were asked for", keys, most)
	}
	return out, r.pool.holds(t, page, token != "")
}
