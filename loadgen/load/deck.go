package load

import "math/rand/v2"

const (
	round   = 1000 // cards that are shuffled together
	waiting = 100  // maximum number of cards that wait until their operation is possible
)

// deck deals operations by their shares, as cards of a shuffled deck. In every round, each operation occurs according to
// its share, in random order. Therefore the mix is exact except for a few operations in runs of any length. With
// independent draws, one in eight runs of 600 000 operations would deviate by 0.1 %. Fractions of a card are carried over
// to the next round.
type deck struct {
	shares []float64 // their sum is 1
	owed   []float64
	cards  []int
	lost   []int64 // dropped cards by operation
	rng    *rand.Rand
}

func newDeck(shares []float64, rng *rand.Rand) *deck {
	total := 0.0
	for _, s := range shares {
		total += s
	}
	d := &deck{owed: make([]float64, len(shares)), lost: make([]int64, len(shares)), rng: rng}
	for _, s := range shares {
		d.shares = append(d.shares, s/total)
	}
	return d
}

// fill shuffles another round below the remaining cards.
func (d *deck) fill() {
	first := len(d.cards)
	for kind, share := range d.shares {
		for d.owed[kind] += share * round; d.owed[kind] >= 1; d.owed[kind]-- {
			d.cards = append(d.cards, kind)
		}
	}
	for len(d.cards) < first+round {
		most := 0
		for kind, owed := range d.owed {
			if owed > d.owed[most] {
				most = kind
			}
		}
		d.owed[most]--
		d.cards = append(d.cards, most)
	}
	fresh := d.cards[first:]
	d.rng.Shuffle(len(fresh), func(a, b int) { fresh[a], fresh[b] = fresh[b], fresh[a] })
}

// deal takes the first card whose operation is possible. Earlier cards wait until their operations are possible. If more
// than `waiting` cards wait, the others are dropped and counted in `lost`. It returns -1 if no operation is possible.
func (d *deck) deal(possible func(kind int) bool) int {
	tried := make([]bool, len(d.shares))
	for i := 0; i <= len(d.cards) && i < 3*round; i++ {
		if i == len(d.cards) {
			d.fill()
		}
		kind := d.cards[i]
		if tried[kind] {
			continue
		}
		if !possible(kind) {
			tried[kind] = true
			continue
		}
		if i > waiting {
			for _, other := range d.cards[:i] {
				d.lost[other]++
			}
			d.cards = d.cards[i+1:]
		} else {
			copy(d.cards[1:i+1], d.cards[:i])
			d.cards = d.cards[1:]
		}
		return kind
	}
	return -1
}
