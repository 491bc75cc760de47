package cost

import (
	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow/element"
)

const second = 1_000_000 // µs

// q5: in each window of 10 s, one every 2 s, the auctions with most bids. Bids are counted per pane of 2 s.
func q5(e events, a *Answer) {
	const slide, panes = 2 * second, 5
	var ring [panes]*Table[int64]
	for i := range ring {
		ring[i] = NewTable[int64](1 << 10)
	}
	total := NewTable[int64](1 << 12)
	// fire ends the window whose last pane is p, and makes room for the next pane.
	fire := func(p int64) {
		total.Clear()
		most := int64(0)
		for _, pane := range ring {
			pane.Each(func(k uint64, n *int64) {
				t := total.At(k)
				*t += *n
				most = max(most, *t)
			})
		}
		start := (p + 1 - panes) * slide
		if most > 0 {
			total.Each(func(k uint64, n *int64) {
				switch {
				case *n != most:
				case a.Canon != nil:
					a.Canon.row(start, int64(k), most)
				default:
					a.add(nexmark.Row().Num(start).Num(int64(k)).Num(most))
				}
			})
		}
		ring[(p+1)%panes].Clear()
	}
	now := int64(e.Time(0)) / slide
	counts := ring[now%panes]
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.LeanBid(i)
			if pane := int64(b.At) / slide; pane != now {
				for ; now < pane; now++ {
					fire(now)
				}
				counts = ring[now%panes]
			}
			*counts.At(uint64(b.Auction))++
		}
	}
	for range panes {
		fire(now)
		now++
	}
}

// q7: in each window of 10 s all bids with the highest price.
func q7(e events, a *Answer) {
	const size = 10 * second
	var best []nexmark.Bid
	fire := func() {
		for _, b := range best {
			if a.Canon != nil {
				a.Canon.row(b.Auction, b.Price, b.Bidder, b.At)
				continue
			}
			a.add(nexmark.Row().Num(b.Auction).Num(b.Price).Num(b.Bidder).Time(b.At))
		}
		best = best[:0]
	}
	end, highest := element.Time(0), int64(0)
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.LeanBid(i)
			if b.At >= end {
				fire()
				highest, end = 0, (b.At/size+1)*size
			}
			switch {
			case b.Price < highest:
				continue
			case b.Price > highest:
				highest, best = b.Price, best[:0]
			}
			best = append(best, b)
		}
	}
	fire()
}

// q8: persons who open an auction in the ten seconds in which they come.
func q8(e events, a *Answer) {
	const size = 10 * second
	type someone struct {
		name        string
		came, sells bool
	}
	known := NewTable[someone](1 << 12)
	start := element.Time(0)
	both := func(id uint64, s *someone) {
		if a.Canon != nil {
			a.Canon.row(int64(id), s.name, start)
			return
		}
		a.add(nexmark.Row().Num(int64(id)).Text(s.name).Time(start))
	}
	for from := int64(0); from < e.n; from += round {
		for i := from; i < min(from+auctionsTo, e.n); i++ {
			if t := e.Time(i); t >= start+size {
				known.Clear()
				start = t / size * size
			}
			if i == from {
				p := e.LeanPerson(i)
				s := known.At(uint64(p.ID))
				s.came, s.name = true, p.Name
				if s.sells {
					both(uint64(p.ID), s)
				}
				continue
			}
			seller := uint64(e.LeanAuction(i).Seller)
			s := known.At(seller)
			if s.came && !s.sells {
				both(seller, s)
			}
			s.sells = true
		}
	}
}

// q11: the sessions of each bidder, and how many bids are in them.
func q11(e events, a *Answer) {
	const gap = 10 * second
	type session struct {
		start, last element.Time
		count       int64
	}
	row := func(k uint64, s *session) {
		if a.Canon != nil {
			a.Canon.row(int64(k), s.start, s.last+gap, s.count)
			return
		}
		a.add(nexmark.Row().Num(int64(k)).Time(s.start).Time(s.last + gap).Num(s.count))
	}
	sessions := NewTable[session](1 << 12)
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.LeanBid(i)
			s := sessions.At(uint64(b.Bidder))
			if s.count > 0 && b.At-s.last > gap {
				row(uint64(b.Bidder), s)
				s.count = 0
			}
			if s.count == 0 {
				s.start = b.At
			}
			s.last = b.At
			s.count++
		}
	}
	sessions.Each(row)
}
