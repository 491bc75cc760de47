package query

import (
	"cmp"
	"iter"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow"
)

func auctionID(a nexmark.Auction) int64 { return a.ID }
func sellerOf(a nexmark.Auction) int64  { return a.Seller }
func bidOn(b nexmark.Bid) int64         { return b.Auction }
func personID(p nexmark.Person) int64   { return p.ID }

// offer is an auction with one of its sellers or bids.
type offer struct {
	Person  nexmark.Person
	Auction nexmark.Auction
}

// localItems (q3): the auctions of category 10 whose seller lives in one of three states, with the seller.
func localItems(s *streams) {
	sellers := s.leanPersons().Filter(func(p nexmark.Person) bool { return p.State == "OR" || p.State == "ID" || p.State == "CA" }).ID("in-state")
	items := s.leanAuctions().Filter(func(a nexmark.Auction) bool { return a.Category == 10 }).ID("in-category")
	write(s, items.KeyBy(sellerOf).
		Join(sellers.KeyBy(personID), func(a nexmark.Auction, p nexmark.Person, emit func(offer)) { emit(offer{p, a}) }).ID("sellers"),
		func(r row, o offer) row {
			return r.text(o.Person.Name).text(o.Person.City).text(o.Person.State).num(o.Auction.ID)
		},
		func(o offer) uint64 {
			return nexmark.Row().Text(o.Person.Name).Text(o.Person.City).Text(o.Person.State).Num(o.Auction.ID).Hash()
		})
}

// won is a bid with its auction.
type won struct {
	Auction nexmark.Auction
	Bid     nexmark.Bid
}

// better: the higher price, on a tie the earlier bid.
func better(a, b won) won {
	if b.Bid.Price > a.Bid.Price || b.Bid.Price == a.Bid.Price && b.Bid.At < a.Bid.At {
		return b
	}
	return a
}

// winners are the best valid bids of the auctions that have one.
func winners(auctions flow.Stream[nexmark.Auction], bids flow.Stream[nexmark.Bid]) flow.Stream[won] {
	return bids.KeyBy(bidOn).
		Join(auctions.KeyBy(auctionID), func(b nexmark.Bid, a nexmark.Auction, emit func(won)) {
			if a.At <= b.At && b.At <= a.Expires {
				emit(won{a, b})
			}
		}).ID("valid").
		KeyBy(func(w won) int64 { return w.Auction.ID }).
		Reduce(better).ID("winners")
}

// winningBids (q9): every auction that has a valid bid, with the best one.
func winningBids(s *streams) {
	write(s, winners(s.auctions(), s.leanBids()), func(r row, w won) row {
		a, b := w.Auction, w.Bid
		r = r.num(a.ID).text(a.Item).nums(a.InitialBid, a.Reserve).time(a.At).time(a.Expires).nums(a.Seller, a.Category)
		return r.nums(b.Bidder, b.Price).time(b.At)
	}, func(w won) uint64 {
		a, b := &w.Auction, &w.Bid
		return nexmark.Row().Num(a.ID).Text(a.Item).Num(a.InitialBid).Num(a.Reserve).Time(a.At).Time(a.Expires).
			Num(a.Seller).Num(a.Category).Num(b.Bidder).Num(b.Price).Time(b.At).Hash()
	})
}

// mean is a sum and how many were added up.
type mean struct{ Sum, Count int64 }

func (m mean) plus(v int64) mean { return mean{m.Sum + v, m.Count + 1} }

// categoryPrices (q4): the mean winning price per category.
func categoryPrices(s *streams) {
	write(s, winners(s.leanAuctions(), s.leanBids()).
		KeyBy(func(w won) int64 { return w.Auction.Category }).
		Fold(func() mean { return mean{} }, func(m mean, w won) mean { return m.plus(w.Bid.Price) }).ID("mean"),
		func(r row, c flow.KV[int64, mean]) row { return r.nums(c.Key, c.Value.Sum/c.Value.Count) },
		func(c flow.KV[int64, mean]) uint64 {
			return nexmark.Row().Num(c.Key).Num(c.Value.Sum / c.Value.Count).Hash()
		})
}

// sellerPrices (q6): per seller the mean winning price of the ten last auctions.
func sellerPrices(s *streams) {
	newest := func(a, b won) int {
		return cmp.Or(cmp.Compare(b.Auction.Expires, a.Auction.Expires), cmp.Compare(b.Auction.ID, a.Auction.ID))
	}
	last := flow.TopNByKey(winners(s.leanAuctions(), s.leanBids()).KeyBy(func(w won) int64 { return w.Auction.Seller }), 10, newest).ID("last-ten")
	write(s, last.KeyBy(func(w flow.Ranked[won]) int64 { return w.Value.Auction.Seller }).
		Fold(func() mean { return mean{} }, func(m mean, w flow.Ranked[won]) mean { return m.plus(w.Value.Bid.Price) }).ID("mean"),
		func(r row, c flow.KV[int64, mean]) row { return r.nums(c.Key, c.Value.Sum/c.Value.Count) })
}

// expandedBids (q20): the bids on auctions of category 10, with the auction.
func expandedBids(s *streams) {
	items := s.auctions().Filter(func(a nexmark.Auction) bool { return a.Category == 10 }).ID("in-category")
	write(s, s.bids().KeyBy(bidOn).
		Join(items.KeyBy(auctionID), func(b nexmark.Bid, a nexmark.Auction, emit func(won)) { emit(won{a, b}) }).ID("auctions-of-bids"),
		func(r row, w won) row {
			a, b := w.Auction, w.Bid
			r = r.nums(b.Auction, b.Bidder, b.Price).text(b.Channel).text(b.URL).time(b.At)
			return r.text(a.Item).nums(a.InitialBid, a.Reserve).time(a.At).time(a.Expires).nums(a.Seller, a.Category)
		},
		func(w won) uint64 {
			a, b := &w.Auction, &w.Bid
			return nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Text(b.Channel).Text(b.URL).Time(b.At).Text(a.Item).
				Num(a.InitialBid).Num(a.Reserve).Time(a.At).Time(a.Expires).Num(a.Seller).Num(a.Category).Hash()
		})
}

// newSellers (q8): the persons who open an auction in the ten seconds in which they come, once each.
func newSellers(s *streams) {
	type seller struct {
		Person nexmark.Person
		Window flow.Window
	}
	write(s, s.leanPersons().KeyBy(personID).
		CoGroup(s.leanAuctions().KeyBy(sellerOf), flow.Tumbling(10*time.Second), func(w flow.Win[int64], ps iter.Seq[nexmark.Person], as iter.Seq[nexmark.Auction], emit func(seller)) error {
			for p := range ps {
				for range as {
					emit(seller{p, w.Window})
					break
				}
			}
			return nil
		}).ID("new-sellers"),
		func(r row, n seller) row { return r.num(n.Person.ID).text(n.Person.Name).time(n.Window.Start) },
		func(n seller) uint64 {
			return nexmark.Row().Num(n.Person.ID).Text(n.Person.Name).Time(n.Window.Start).Hash()
		})
}

// label is a row of the side input.
type label struct {
	Key  int64
	Text string
}

// sideInput (q13): every bid with the label of its auction, from a bounded table that every subtask holds.
func sideInput(s *streams) {
	const labels = 10_000
	side := s.p.From("labels", generate.Records(labels, func(i int64) (label, flow.Time) {
		return label{i, "v" + strconv.FormatInt(i, 10)}, 0
	}))
	type labelled struct {
		Bid  nexmark.Bid
		Text string
	}
	write(s, s.leanBids().KeyBy(func(b nexmark.Bid) int64 { return b.Auction % labels }).
		Join(side.KeyBy(func(l label) int64 { return l.Key }), func(b nexmark.Bid, l label, emit func(labelled)) { emit(labelled{b, l.Text}) },
			flow.BroadcastRight()).ID("labelled"),
		func(r row, l labelled) row { return plain(r, l.Bid).text(l.Text) })
}
