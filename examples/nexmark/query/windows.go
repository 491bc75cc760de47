package query

import (
	"time"

	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow"
)

// hottest are the auctions with most bids, of those looked at.
type hottest struct {
	Bids     int64
	Auctions []int64
}

// mostBids finds them among the counts of a window; all that are equal.
type mostBids struct{}

func (mostBids) New() hottest { return hottest{} }

// Add makes nothing for an auction that is not among the hottest, as most are.
func (mostBids) Add(h hottest, c flow.Windowed[int64, int64]) hottest {
	switch {
	case c.Value < h.Bids:
		return h
	case c.Value > h.Bids:
		h.Bids, h.Auctions = c.Value, h.Auctions[:0]
	}
	h.Auctions = append(h.Auctions, c.Key)
	return h
}

func (mostBids) Merge(a, b hottest) hottest {
	switch {
	case a.Bids > b.Bids:
		return a
	case a.Bids < b.Bids:
		return b
	}
	return hottest{a.Bids, append(a.Auctions, b.Auctions...)}
}

func (mostBids) Result(h hottest) hottest { return h }

// hotItems (q5): in each window of 10 s, one every 2 s, the auctions with most bids.
func hotItems(s *streams) {
	counts := s.leanBids().KeyBy(bidOn).Window(flow.Sliding(10*time.Second, 2*time.Second)).Count().ID("counts")
	type hot struct {
		Start         flow.Time
		Auction, Bids int64
	}
	write(s, flow.PerWindow(counts).Aggregate(mostBids{}).ID("hottest").
		FlatMap(func(w flow.Windowed[flow.Window, hottest], emit func(hot)) {
			for _, a := range w.Value.Auctions {
				emit(hot{w.Key.Start, a, w.Value.Bids})
			}
		}).ID("each"), func(r row, h hot) row { return r.time(h.Start).nums(h.Auction, h.Bids) },
		func(h hot) uint64 { return nexmark.Row().Time(h.Start).Num(h.Auction).Num(h.Bids).Hash() })
}

// best are the bids with the highest price, of those looked at.
type best struct {
	Price int64
	Bids  []nexmark.Bid
}

// better is the one with the higher price; of equal ones both.
func (a best) or(b best) best {
	switch {
	case a.Price > b.Price:
		return a
	case a.Price < b.Price:
		return b
	}
	return best{a.Price, append(a.Bids, b.Bids...)}
}

// highestBids finds them among bids.
type highestBids struct{}

func (highestBids) New() best { return best{} }

// Add makes nothing for a bid that is not among the highest, as most are.
func (highestBids) Add(a best, b nexmark.Bid) best {
	switch {
	case b.Price < a.Price:
		return a
	case b.Price > a.Price:
		a.Price, a.Bids = b.Price, a.Bids[:0]
	}
	a.Bids = append(a.Bids, b)
	return a
}

func (highestBids) Merge(a, b best) best { return a.or(b) }
func (highestBids) Result(a best) best   { return a }

// highestOf finds them among those of the shares.
type highestOf struct{}

func (highestOf) New() best                                     { return best{} }
func (highestOf) Add(a best, w flow.Windowed[int64, best]) best { return a.or(w.Value) }
func (highestOf) Merge(a, b best) best                          { return a.or(b) }
func (highestOf) Result(a best) best                            { return a }

// shares are what the bids of a window are split into, so that many subtasks can look for its highest price.
const shares = 64

// highestPrice (q7): in each window of 10 s all bids with the highest price.
func highestPrice(s *streams) {
	perShare := s.leanBids().KeyBy(func(b nexmark.Bid) int64 { return b.Bidder % shares }).
		Window(flow.Tumbling(10 * time.Second)).Aggregate(highestBids{}).ID("per-share")
	write(s, flow.PerWindow(perShare).Aggregate(highestOf{}).ID("highest").
		FlatMap(func(w flow.Windowed[flow.Window, best], emit func(nexmark.Bid)) {
			for _, b := range w.Value.Bids {
				emit(b)
			}
		}).ID("each"), func(r row, b nexmark.Bid) row { return r.nums(b.Auction, b.Price, b.Bidder).time(b.At) },
		func(b nexmark.Bid) uint64 {
			return nexmark.Row().Num(b.Auction).Num(b.Price).Num(b.Bidder).Time(b.At).Hash()
		})
}

// bidderSessions counts the bids of each session of a bidder.
func bidderSessions(gap time.Duration) func(*streams) {
	return func(s *streams) {
		write(s, s.leanBids().KeyBy(func(b nexmark.Bid) int64 { return b.Bidder }).
			Window(flow.Session(gap)).Count().ID("sessions"),
			func(r row, w flow.Windowed[int64, int64]) row {
				return r.num(w.Key).time(w.Window.Start).time(w.Window.End).num(w.Value)
			},
			func(w flow.Windowed[int64, int64]) uint64 {
				return nexmark.Row().Num(w.Key).Time(w.Window.Start).Time(w.Window.End).Num(w.Value).Hash()
			})
	}
}

// bidderMinutes (q12) counts the bids of a bidder in each window of 10 s by the clock of the machine: bidder|start|end|count.
func bidderMinutes(s *streams) {
	write(s, s.leanBids().KeyBy(func(b nexmark.Bid) int64 { return b.Bidder }).
		Window(flow.Tumbling(10*time.Second).ProcessingTime()).Count().ID("counts"),
		func(r row, w flow.Windowed[int64, int64]) row {
			return r.num(w.Key).time(w.Window.Start).time(w.Window.End).num(w.Value)
		})
}
