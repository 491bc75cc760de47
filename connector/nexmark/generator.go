package nexmark

import (
	_ "embed"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/sluiceio/sluice/flow/element"
)

// Epoch is the time of event 0: 2015-07-15T00:00:00Z.
const Epoch element.Time = 1_436_918_400_000_000

const (
	golden = 0x9E3779B97F4A7C15
	// round is the number of events in which each kind has its fixed places.
	round = 50
	// auctionsPerRound stand behind the person of a round.
	auctionsPerRound = 3
	// firstID is the id with sequence number 0, of every kind.
	firstID = 1000
	// window bounds how far back a recent person or auction lies; ahead is how many that do not exist yet may be named.
	personWindow, auctionWindow, ahead = 1000, 100, 10
)

// Kind of an event.
type Kind uint8

// The kinds, in the order of a round.
const (
	KindPerson Kind = iota
	KindAuction
	KindBid
)

// KindOf is the kind of event i.
func KindOf(i int64) Kind {
	switch r := i % round; {
	case r == 0:
		return KindPerson
	case r <= auctionsPerRound:
		return KindAuction
	}
	return KindBid
}

// Generator makes events. The zero value is of no use: see New.
type Generator struct {
	seed       uint64 // mixed
	usPerEvent int64
	prices     *[priceCount]int64
}

// New is the generator of a seed, with so many microseconds of event time between two events.
func New(seed uint64, usPerEvent int64) Generator {
	return Generator{seed: mix(seed + golden), usPerEvent: usPerEvent, prices: priceTable()}
}

func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xBF58476D1CE4E5B9
	z ^= z >> 27
	z *= 0x94D049BB133111EB
	return z ^ z>>31
}

// draws are the random numbers of one event.
type draws uint64

func (g Generator) draws(i int64) draws { return draws(mix(g.seed ^ uint64(i)*golden)) }

func (d draws) draw(k uint64) uint64 { return mix(uint64(d) + k*golden) }

func (d draws) bounded(k, n uint64) int64 {
	hi, _ := bits.Mul64(d.draw(k), n)
	return int64(hi)
}

// word appends n letters.
func (d draws) word(dst []byte, k uint64, n int) []byte {
	x := d.draw(k)
	for range n {
		dst = append(dst, 'a'+byte(x%26))
		x /= 26
	}
	return dst
}

// recent is a sequence number among the last ones, or one of the next ones.
func (d draws) recent(k uint64, last, most int64) int64 {
	a := min(last+1, most)
	return last + 1 - a + d.bounded(k, uint64(a+ahead))
}

func (g Generator) price(d draws, k uint64) int64 { return g.prices[d.bounded(k, priceCount)] }

// Time is the event time of event i: unique, and strictly increasing with i.
func (g Generator) Time(i int64) element.Time { return Epoch + element.Time(i*g.usPerEvent) }

const priceCount = 4096

//go:embed prices.txt
var priceText string

// priceTable parses the table once: 4,096 integers, log-uniform over [100, 10^8).
var priceTable = sync.OnceValue(func() *[priceCount]int64 {
	t := &[priceCount]int64{}
	n := 0
	for line := range strings.Lines(priceText) {
		v, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || n == priceCount {
			panic("nexmark: the embedded table of prices is damaged")
		}
		t[n] = v
		n++
	}
	if n != priceCount {
		panic("nexmark: the embedded table of prices is too short")
	}
	return t
})
