package load

import (
	"slices"
	"testing"
	"time"
)

// The longest pauses are kept, sorted by their begin, and all are counted.
func TestLongestPauses(t *testing.T) {
	p := &Pauses{}
	sum := int64(0)
	for i := range int64(250) { // lengths 0, 7, 14, … mod 250: each from 0 to 249 once
		length := i * 7 % 250
		p.add(i, length)
		sum += length
	}
	if p.Count != 250 || p.SumNs != sum || p.LongestNs != 249 || len(p.Longest) != mostPauses {
		t.Fatalf("%d, %d, %d, %d kept", p.Count, p.SumNs, p.LongestNs, len(p.Longest))
	}
	for i, kept := range p.Longest {
		if kept[1] < 150 || kept[1] != kept[0]*7%250 || i > 0 && kept[0] <= p.Longest[i-1][0] {
			t.Fatalf("%d: %v after %v", i, kept, p.Longest[max(0, i-1)])
		}
	}
}

// Operations that began late though their worker waited are counted from 20 ms on.
func TestLateBegins(t *testing.T) {
	var l lateness
	for _, ms := range []int64{0, 19, 20, 35, 21} {
		l.note(ms * int64(time.Millisecond))
	}
	if l.count != 3 || l.longest != 35*int64(time.Millisecond) {
		t.Errorf("%+v", &l)
	}
}

func TestAPauseIsWhatATickWasLate(t *testing.T) {
	ms := time.Millisecond
	var p Pauses
	for _, since := range []time.Duration{10 * ms, 29 * ms, 30*ms - 1, 30 * ms, 110 * ms} {
		p.tick(int64(1e9), since)
	}
	want := [][2]int64{{1e9 - 20e6, 20e6}, {1e9 - 100e6, 100e6}}
	if p.Count != 2 || p.SumNs != 120e6 || p.LongestNs != 100e6 || !slices.Equal(p.Longest, want) {
		t.Errorf("%+v", p)
	}
}
