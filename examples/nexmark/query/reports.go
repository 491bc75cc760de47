package query

import (
	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow"
)

const dayLength = 86_400_000_000 // µs

// day is a UTC day: days since the epoch.
func day(t flow.Time) int64 { return int64(t) / dayLength }

func dayText(day int64) string { return flow.Time(day * dayLength).Std().Format("2006-01-02") }

// ranks of prices, from 1.
const ranks = 3

func rank(price int64) int {
	switch {
	case price < 10_000:
		return 1
	case price < 1_000_000:
		return 2
	}
	return ranks
}

// tally counts something in all, and by rank.
type tally [1 + ranks]int64

// figures are the counts of one report.
type figures struct {
	Bids, Bidders, Auctions tally
	Last                    flow.Time
}

func (r row) tally(t tally) row { return r.nums(t[:]...) }

// channelDay is the subject of a report.
type channelDay struct {
	Channel string // empty: all
	Day     int64
}

// report is what is known of a subject at the end.
type report struct {
	Of      channelDay
	Figures figures
}

// reporter counts bids, and bidders and auctions once each.
type reporter struct {
	figures           flow.ValueState[figures]
	bidders, auctions flow.MapState[int64, uint8] // in which ranks each was seen: a bit per rank
}

func (p *reporter) Open(s *flow.Setup[channelDay, report]) error {
	p.figures = s.Value[figures]("figures")
	p.bidders = s.Map[int64, uint8]("bidders")
	p.auctions = s.Map[int64, uint8]("auctions")
	s.OnEnd(func(c *flow.Ctx[channelDay, report]) error {
		c.Emit(report{c.Key(), p.figures.Get()})
		return nil
	})
	return nil
}

func (p *reporter) Process(_ *flow.Ctx[channelDay, report], b nexmark.Bid) error {
	f, r := p.figures.Ref(), rank(b.Price)
	f.Bids[0]++
	f.Bids[r]++
	f.Last = max(f.Last, b.At)
	first(p.bidders, b.Bidder, r, &f.Bidders)
	first(p.auctions, b.Auction, r, &f.Auctions)
	return nil
}

// first counts who if it was not seen before, at all and in rank r.
func first(seen flow.MapState[int64, uint8], who int64, r int, t *tally) {
	before, _ := seen.Get(who)
	now := before | 1<<r
	if before == 0 {
		t[0]++
	}
	if now != before {
		t[r]++
		seen.Put(who, now)
	}
}

// dailyReport (q15): bids, bidders and auctions of each day, by rank of price.
func dailyReport(s *streams) {
	write(s, s.leanBids().KeyBy(func(b nexmark.Bid) channelDay { return channelDay{Day: day(b.At)} }).
		Process(func() *reporter { return &reporter{} }).ID("report"),
		func(r row, d report) row {
			return r.text(dayText(d.Of.Day)).tally(d.Figures.Bids).tally(d.Figures.Bidders).tally(d.Figures.Auctions)
		})
}

// channelReport (q16): the same per channel and day, with the minute of the last bid.
func channelReport(s *streams) {
	write(s, s.bids().KeyBy(func(b nexmark.Bid) channelDay { return channelDay{b.Channel, day(b.At)} }).
		Process(func() *reporter { return &reporter{} }).ID("report"),
		func(r row, d report) row {
			r = r.text(d.Of.Channel).text(dayText(d.Of.Day)).text(d.Figures.Last.Std().Format("15:04"))
			return r.tally(d.Figures.Bids).tally(d.Figures.Bidders).tally(d.Figures.Auctions)
		})
}

// auctionDay is the subject of a price report.
type auctionDay struct{ Auction, Day int64 }

// prices are the counts and limits of the prices of one subject.
type prices struct {
	Bids          tally
	Min, Max, Sum int64
}

func (p prices) plus(b nexmark.Bid) prices {
	if p.Bids[0] == 0 || b.Price < p.Min {
		p.Min = b.Price
	}
	p.Max = max(p.Max, b.Price)
	p.Sum += b.Price
	p.Bids[0]++
	p.Bids[rank(b.Price)]++
	return p
}

// auctionReport (q17): per auction and day the number of bids, by rank, and their prices.
func auctionReport(s *streams) {
	write(s, s.leanBids().KeyBy(func(b nexmark.Bid) auctionDay { return auctionDay{b.Auction, day(b.At)} }).
		Fold(func() prices { return prices{} }, prices.plus).ID("prices"),
		func(r row, d flow.KV[auctionDay, prices]) row {
			p := d.Value
			r = r.num(d.Key.Auction).text(dayText(d.Key.Day)).tally(p.Bids)
			return r.nums(p.Min, p.Max, p.Sum/p.Bids[0], p.Sum)
		})
}

func (r row) bid(b nexmark.Bid) row {
	return r.nums(b.Auction, b.Bidder, b.Price).text(b.Channel).text(b.URL).time(b.At)
}

func bidFields(b nexmark.Bid) nexmark.Fields {
	return nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Text(b.Channel).Text(b.URL).Time(b.At)
}

// lastBids (q18): the last bid of each bidder on each auction.
func lastBids(s *streams) {
	type pair struct{ Bidder, Auction int64 }
	write(s, s.bids().KeyBy(func(b nexmark.Bid) pair { return pair{b.Bidder, b.Auction} }).
		Reduce(func(a, b nexmark.Bid) nexmark.Bid {
			if b.At > a.At {
				return b
			}
			return a
		}).ID("last"), row.bid, func(b nexmark.Bid) uint64 { return bidFields(b).Hash() })
}

// rankedBid is one of the highest bids of an auction.
type rankedBid struct {
	Bid  nexmark.Bid
	Rank int64
}

// top are the highest bids of an auction, the highest first.
type top struct {
	Count int
	Bids  [10]nexmark.Bid
}

// take keeps b if it is among the highest; on a tie the earlier one stands first.
func (t *top) take(b *nexmark.Bid) {
	at := t.Count
	for at > 0 && higher(b, &t.Bids[at-1]) {
		at--
	}
	if at == len(t.Bids) {
		return
	}
	t.Count = min(t.Count+1, len(t.Bids))
	copy(t.Bids[at+1:t.Count], t.Bids[at:])
	t.Bids[at] = *b
}

func higher(a, b *nexmark.Bid) bool { return a.Price > b.Price || a.Price == b.Price && a.At < b.At }

// ranking keeps the highest bids of each auction in place. flow.TopNByKey does the same for any number and order; its records move.
type ranking struct{ top flow.ValueState[top] }

func (r *ranking) Open(s *flow.Setup[int64, rankedBid]) error {
	r.top = s.Value[top]("top")
	s.OnEnd(func(c *flow.Ctx[int64, rankedBid]) error {
		t := r.top.Ref()
		for i := range t.Count {
			c.Emit(rankedBid{t.Bids[i], int64(i + 1)})
		}
		return nil
	})
	return nil
}

func (r *ranking) Process(_ *flow.Ctx[int64, rankedBid], b nexmark.Bid) error {
	r.top.Ref().take(&b)
	return nil
}

// topBids (q19): the ten highest bids of each auction, on a tie the earlier first.
func topBids(s *streams) {
	write(s, s.bids().KeyBy(bidOn).Process(func() *ranking { return &ranking{} }).ID("top"),
		func(r row, b rankedBid) row { return r.bid(b.Bid).num(b.Rank) },
		func(b rankedBid) uint64 { return bidFields(b.Bid).Num(b.Rank).Hash() })
}
