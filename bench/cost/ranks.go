package cost

import "github.com/sluiceio/sluice/connector/nexmark"

// q18: the last bid of each bidder on each auction.
func q18(e events, a *Answer) {
	last := NewTable[nexmark.Bid](1 << 12)
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.bid(i)
			*last.At(uint64(b.Bidder)<<32 | uint64(b.Auction)) = b // both below 2^32: a hundred thousand million events
		}
	}
	last.Each(func(_ uint64, b *nexmark.Bid) {
		if a.Canon != nil {
			a.Canon.row(b.Auction, b.Bidder, b.Price, b.Channel, b.URL, b.At)
			return
		}
		a.add(nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Text(b.Channel).Text(b.URL).Time(b.At))
	})
}

// q19: the ten highest bids of each auction, on a tie the earlier first.
func q19(e events, a *Answer) {
	const most = 10
	top := NewTable[[]nexmark.Bid](1 << 12)
	var slab []nexmark.Bid
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.bid(i)
			t := top.At(uint64(b.Auction))
			n := len(*t)
			switch {
			case n == 0:
				if len(slab) == 0 {
					slab = make([]nexmark.Bid, 1024*most)
				}
				*t, slab = slab[:0:most], slab[most:]
			case n == most && b.Price <= (*t)[most-1].Price:
				continue
			}
			if n < most {
				n++
				*t = (*t)[:n]
			}
			s, at := *t, n-1
			for ; at > 0 && s[at-1].Price < b.Price; at-- {
				s[at] = s[at-1]
			}
			s[at] = b
		}
	}
	top.Each(func(_ uint64, t *[]nexmark.Bid) {
		for i := range *t {
			b, rank := &(*t)[i], int64(i+1)
			if a.Canon != nil {
				a.Canon.row(b.Auction, b.Bidder, b.Price, b.Channel, b.URL, b.At, rank)
				continue
			}
			a.add(nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Text(b.Channel).Text(b.URL).Time(b.At).Num(rank))
		}
	})
}
