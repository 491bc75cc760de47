package query

import (
	"cmp"
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

// offering is an auction that opens, or a bid on one: of that, ID, Bidder, Price and At.
type offering struct {
	ID                  int64 // of the auction
	Bidder, Price       int64 // Price 0: an auction opens
	At, Expires         flow.Time
	Seller, Category    int64
	InitialBid, Reserve int64
	Item                string
}

func (o *offering) auction() nexmark.Auction {
	return nexmark.Auction{
		ID: o.ID, Item: o.Item, InitialBid: o.InitialBid, Reserve: o.Reserve, At: o.At, Expires: o.Expires, Seller: o.Seller, Category: o.Category,
	}
}

// offerings are auctions and bids in the order of time, from one source: an auction is there when its bids come, as long as their
// split is one.
func (s *streams) offerings(auction func(nexmark.Generator, int64) nexmark.Auction) flow.KeyedStream[int64, offering] {
	source := nexmark.InRuns(s.cfg, nexmark.KindAuction, nexmark.KindBid, func(g nexmark.Generator, i int64, vals []offering) {
		for k := range vals {
			at := i + int64(k)
			if nexmark.KindOf(at) == nexmark.KindBid {
				b := g.LeanBid(at)
				vals[k] = offering{ID: b.Auction, Bidder: b.Bidder, Price: b.Price, At: b.At}
				continue
			}
			a := auction(g, at)
			vals[k] = offering{
				ID: a.ID, At: a.At, Expires: a.Expires, Seller: a.Seller, Category: a.Category, InitialBid: a.InitialBid, Reserve: a.Reserve, Item: a.Item,
			}
		}
	})
	return s.p.From("offerings", source, flow.SourceTime[offering]()).KeyBy(func(o offering) int64 { return o.ID })
}

// lot is an auction with its best valid bid so far. It is kept to the end of the input: that the auction is over is no reason to say
// so earlier, and what is kept of a bid is the best one.
type lot struct {
	Auction nexmark.Auction // ID 0: it has not come yet
	Best    bid
	Early   []bid // those that came before the auction, which may be from another split
}

// bid is what a lot keeps of a bid; Price 0: there is none.
type bid struct {
	Bidder, Price int64
	At            flow.Time
}

// offer counts a bid: the higher price wins, on a tie the earlier bid.
func (l *lot) offer(b bid) {
	if l.Auction.At <= b.At && b.At <= l.Auction.Expires && (b.Price > l.Best.Price || b.Price == l.Best.Price && b.At < l.Best.At) {
		l.Best = b
	}
}

func (l *lot) take(o *offering) {
	switch b := (bid{o.Bidder, o.Price, o.At}); {
	case o.Price == 0:
		l.Auction = o.auction()
		for _, b := range l.Early {
			l.offer(b)
		}
		l.Early = nil
	case l.Auction.ID == 0:
		l.Early = append(l.Early, b)
	default:
		l.offer(b)
	}
}

// auctioneer keeps a lot per auction, and emits those that have a valid bid.
type auctioneer struct{ lot flow.ValueState[lot] }

func (a *auctioneer) Open(s *flow.Setup[int64, won]) error {
	a.lot = s.Value[lot]("lot")
	s.OnEnd(func(c *flow.Ctx[int64, won]) error {
		if l := a.lot.Ref(); l.Best.Price > 0 {
			c.Emit(won{l.Auction, nexmark.Bid{Auction: l.Auction.ID, Bidder: l.Best.Bidder, Price: l.Best.Price, At: l.Best.At}})
		}
		return nil
	})
	return nil
}

func (a *auctioneer) Process(_ *flow.Ctx[int64, won], o offering) error {
	a.lot.Ref().take(&o)
	return nil
}

// winners are the best valid bids of the auctions that have one.
func (s *streams) winners(auction func(nexmark.Generator, int64) nexmark.Auction) flow.Stream[won] {
	return s.offerings(auction).Process(func() *auctioneer { return &auctioneer{} }).ID("winners")
}

// whole makes all fields of an auction, where they are wanted.
func (s *streams) whole() func(nexmark.Generator, int64) nexmark.Auction {
	if s.lean != nil && !s.lean.Full {
		return nexmark.Generator.LeanAuction
	}
	return nexmark.Generator.Auction
}

// winningBids (q9): every auction that has a valid bid, with the best one.
func winningBids(s *streams) {
	write(s, s.winners(s.whole()), func(r row, w won) row {
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
	write(s, s.winners(nexmark.Generator.LeanAuction).
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
	last := flow.TopNByKey(s.winners(nexmark.Generator.LeanAuction).KeyBy(func(w won) int64 { return w.Auction.Seller }), 10, newest).ID("last-ten")
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
	// arrival is what the query asks of a person who comes, or of an auction that somebody opens.
	type arrival struct {
		ID    int64 // of the person
		Name  string
		Opens bool
	}
	// presence is what is known of a person in a window.
	type presence struct {
		Name        string
		Came, Opens bool
	}
	source := nexmark.Mixed(s.cfg, nexmark.KindPerson, nexmark.KindAuction, func(g nexmark.Generator, i int64) arrival {
		if nexmark.KindOf(i) == nexmark.KindAuction {
			return arrival{ID: g.LeanAuction(i).Seller, Opens: true}
		}
		p := g.LeanPerson(i)
		return arrival{ID: p.ID, Name: p.Name}
	})
	write(s, s.p.From("arrivals", source, flow.SourceTime[arrival]()).
		KeyBy(func(a arrival) int64 { return a.ID }).
		Window(flow.Tumbling(10*time.Second)).
		Fold(func() presence { return presence{} }, func(p presence, a arrival) presence {
			if a.Opens {
				p.Opens = true
				return p
			}
			return presence{a.Name, true, p.Opens}
		}, func(a, b presence) presence {
			return presence{cmp.Or(a.Name, b.Name), a.Came || b.Came, a.Opens || b.Opens}
		}).ID("presences").
		Filter(func(w flow.Windowed[int64, presence]) bool { return w.Value.Came && w.Value.Opens }).ID("new-sellers"),
		func(r row, w flow.Windowed[int64, presence]) row {
			return r.num(w.Key).text(w.Value.Name).time(w.Window.Start)
		},
		func(w flow.Windowed[int64, presence]) uint64 {
			return nexmark.Row().Num(w.Key).Text(w.Value.Name).Time(w.Window.Start).Hash()
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
