package nexmark

import (
	"strconv"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
)

func TestSourceConformance(t *testing.T) {
	const events = 1500
	g := New(42, 100)
	var bids []Bid
	for i := range int64(events) {
		if KindOf(i) == KindBid {
			bids = append(bids, g.Bid(i))
		}
	}
	name := func(b Bid) string {
		return strconv.FormatInt(b.Auction, 10) + " " + strconv.FormatInt(b.Price, 10) + " " + strconv.FormatInt(int64(b.At), 10)
	}
	suite.TestSource(t, suite.Source[Bid]{
		Want: bids, Name: name,
		Open: func(testing.TB) connector.Source[Bid] { return Config{Seed: 42, Events: events}.Bids() },
	})
}

func TestAllEventsConform(t *testing.T) {
	const events = 600
	var want []int64
	for i := range int64(events) {
		want = append(want, i)
	}
	index := func(_ Generator, i int64) int64 { return i }
	suite.TestSource(t, suite.Source[int64]{
		Want: want, Name: func(v int64) string { return strconv.FormatInt(v, 10) },
		Open: func(testing.TB) connector.Source[int64] { return All(Config{Seed: 42, Events: events}, index) },
	})
}
