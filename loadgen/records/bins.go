package records

import (
	"cmp"
	"slices"
	"sort"
)

// BinNs is the default width of a bin. edges are the upper ends of the buckets of its histogram. Each bucket is 2 % wider
// than the bucket below. They are the same as in storelab.engines.common.bins, so that records of all engines can be
// added.
const BinNs = 100_000_000

var edges = func() []int64 {
	const finest, longest = 1_000, 10_000_000_000_000
	out := []int64{finest}
	for last := int64(finest); last < longest; {
		last += last / 50
		out = append(out, last)
	}
	return out
}()

// bin is one row: operations of one kind, class and status that ended in (begin, begin + width].
type bin struct {
	number              int64
	kind, class, status int
}

type sums struct {
	count, bytes, requests int64
	buckets                map[int]int64
}

type bins struct {
	plan *Plan
	sums map[bin]*sums
}

func newBins(plan *Plan) *bins { return &bins{plan, map[bin]*sums{}} }

func (b *bins) add(c *chunk) {
	var last bin
	var into *sums
	width := b.plan.binNs()
	for i := range c.ops {
		o := c.ops[i].unpack()
		if b.plan.Sized {
			o.Size = c.size[i]
		}
		end := o.Start + o.Lasted
		key := bin{(end+width-1)/width - 1, o.Kind, o.Class, o.Status}
		if into == nil || key != last {
			if into = b.sums[key]; into == nil {
				into = &sums{buckets: map[int]int64{}}
				b.sums[key] = into
			}
			last = key
		}
		count, bytes := b.plan.moved(&o)
		into.requests += b.plan.requests(&o)
		into.count += count
		into.bytes += bytes
		begun := o.Start
		if b.plan.Open {
			begun = c.due[i]
		}
		at := sort.Search(len(edges), func(j int) bool { return edges[j] >= end-begun })
		into.buckets[min(at, len(edges)-1)]++
	}
}

// sorted returns the keys ordered by time.
func (b *bins) sorted() []bin {
	out := make([]bin, 0, len(b.sums))
	for key := range b.sums {
		out = append(out, key)
	}
	slices.SortFunc(out, func(x, y bin) int {
		return cmp.Or(cmp.Compare(x.number, y.number), cmp.Compare(x.kind, y.kind), cmp.Compare(x.class, y.class), cmp.Compare(x.status, y.status))
	})
	return out
}
