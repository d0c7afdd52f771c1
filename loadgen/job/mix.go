package job

import (
	"fmt"
	"math"
)

// Population describes the objects of a mix: those in the store at the start, and their maximum number at a time.
// Object n is at the place of upload n. Its content is body n modulo the number of bodies, cut to its size.
type Population struct {
	Start []int64 `json:"start"` // sizes of the objects 0, 1, … that exist at the start
	Most  int     `json:"most"`  // maximum number of objects at the same time; further uploads overwrite objects
}

// Sizes describes the sizes of the objects that a mix uploads, in bytes: all equal, log-normal, or from a table.
type Sizes struct {
	Fixed int64     `json:"fixed"`
	Mean  float64   `json:"mean"`  // mean of the log-normal distribution, before it is cut at `least` and `most`
	Sigma float64   `json:"sigma"` // standard deviation of the logarithm
	Least int64     `json:"least"`
	Most  int64     `json:"most"`
	Size  []int64   `json:"size"`
	Count []float64 `json:"count"`
}

// Mixed returns whether the operations work on a population.
func (j *Job) Mixed() bool { return j.Population != nil }

// Named returns whether PUT uploads each object of the job once. These objects have sizes.
func (j *Job) Named() bool { return len(j.Objects.Size) > 0 }

func (j *Job) checkMix() error {
	p, s := j.Population, j.Sizes
	if j.Arrivals != "" && j.Arrivals != "even" && j.Arrivals != "poisson" {
		return fmt.Errorf("arrivals = %s: must be even or poisson", j.Arrivals)
	}
	if p == nil {
		if s != nil {
			return fmt.Errorf("sizes: only a mix has sizes: set a population, or object_size")
		}
		return nil
	}
	if j.Has(GetRange, Multi) || len(j.Lists) > 0 || len(j.Objects.Key) > 0 || j.PartSize > 0 {
		return fmt.Errorf("population: only PUT, GET, HEAD, DELETE and LIST are possible, without objects, lists and part_size")
	}
	if len(j.Uploads) == 0 || len(j.Bodies) == 0 {
		return fmt.Errorf("population: it needs uploads and bodies")
	}
	if p.Most < 1 || len(p.Start) > p.Most {
		return fmt.Errorf("population.most = %d: must be 1 or more, and at least the number at the start (%d)", p.Most, len(p.Start))
	}
	for i, size := range p.Start {
		if size < 0 || size > j.ObjectSize {
			return fmt.Errorf("population.start[%d] = %d: must be from 0 to object_size = %d B", i, size, j.ObjectSize)
		}
	}
	if s == nil {
		return fmt.Errorf("sizes: a population needs sizes")
	}
	return s.check(j.ObjectSize)
}

// check refuses sizes that are larger than the bodies.
func (s *Sizes) check(most int64) error {
	bad := func(field string, value any, hint string) error {
		return fmt.Errorf("sizes.%s = %v: %s", field, value, hint)
	}
	switch {
	case len(s.Size) > 0:
		if len(s.Count) != len(s.Size) {
			return bad("count", len(s.Count), "as many as sizes")
		}
		total := 0.0
		for i, size := range s.Size {
			if size < 0 || size > most {
				return bad("size", size, fmt.Sprintf("0 to object_size = %d B", most))
			}
			if s.Count[i] < 0 || math.IsInf(s.Count[i], 0) {
				return bad("count", s.Count[i], "at least 0")
			}
			total += s.Count[i]
		}
		if total <= 0 {
			return bad("count", total, "more than 0 in all")
		}
	case s.Mean > 0:
		switch {
		case s.Sigma <= 0 || s.Sigma > 5:
			return bad("sigma", s.Sigma, "more than 0, at most 5")
		case s.Most > most || s.Least < 0:
			return bad("least, most", fmt.Sprint(s.Least, ", ", s.Most), fmt.Sprintf("0 to object_size = %d B", most))
		case float64(s.Least) >= s.Mean || float64(s.Most) <= s.Mean:
			return bad("least, most", fmt.Sprint(s.Least, ", ", s.Most), "below and above the mean")
		}
	case s.Fixed < 0 || s.Fixed > most:
		return bad("fixed", s.Fixed, fmt.Sprintf("0 to object_size = %d B", most))
	}
	return nil
}
