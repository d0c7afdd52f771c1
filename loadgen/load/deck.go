package load

import "math/rand/v2"

const (
	round   = 1000 // cards that are shuffled together
	waiting = 100  // cards, at most, that wait for their operation to be possible
)

// deck deals operations by their shares, as cards of a shuffled deck: in every round each operation comes as often as
// its share says, in random order. So the mix holds to a few operations however long it runs; drawn independently, 600 000
// operations would be off by 0.1 % in one run of eight. What a round cannot hold of a share is owed to the next.
type deck struct {
	shares []float64 // their sum is 1
	owed   []float64
	cards  []int
	lost   []int64 // cards by operation that waited in vain
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

// fill shuffles another round below the cards that are left.
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

// deal takes the first card whose operation is possible; earlier ones stay, to be dealt when they are. Of more than
// `waiting` of those the deck is rid: lost counts them. -1: nothing is possible.
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
