package load

import (
	"math"
	"math/rand/v2"
	"sort"

	"storelab/loadgen/job"
)

// sizer draws the sizes of objects.
type sizer struct {
	job.Sizes
	below []float64 // of a table: cumulative counts up to each size
	mu    float64   // of the logarithm of a log-normal size
}

func newSizer(s job.Sizes) *sizer {
	z := &sizer{Sizes: s}
	total := 0.0
	for _, n := range s.Count {
		total += n
		z.below = append(z.below, total)
	}
	if s.Mean > 0 {
		z.mu = math.Log(s.Mean) - s.Sigma*s.Sigma/2
	}
	return z
}

func (z *sizer) draw(rng *rand.Rand) int64 {
	switch {
	case len(z.Size) > 0:
		at := rng.Float64() * z.below[len(z.below)-1]
		return z.Size[sort.Search(len(z.below)-1, func(i int) bool { return z.below[i] > at })]
	case z.Mean > 0:
		for { // draw again if the size is outside of the bounds; the mean is inside, so this ends soon
			if size := math.Round(math.Exp(z.mu + z.Sigma*rng.NormFloat64())); size >= float64(z.Least) && size <= float64(z.Most) {
				return int64(size)
			}
		}
	}
	return z.Fixed
}
