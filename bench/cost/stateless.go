package cost

import "github.com/sluiceio/sluice/connector/nexmark"

// round of events: a person, three auctions, bids.
const (
	round      = 50
	firstBid   = 4
	auctionsTo = firstBid
)

// q0: every bid.
func q0(e events, a *Answer) {
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.LeanBid(i)
			if a.Canon != nil {
				a.Canon.row(b.Auction, b.Bidder, b.Price, b.At)
				continue
			}
			a.add(nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Time(b.At))
		}
	}
}

// q1: every bid with its price in euros.
func q1(e events, a *Answer) {
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.LeanBid(i)
			b.Price = b.Price * 908 / 1000
			if a.Canon != nil {
				a.Canon.row(b.Auction, b.Bidder, b.Price, b.At)
				continue
			}
			a.add(nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Time(b.At))
		}
	}
}

// q2: bids on some auctions.
func q2(e events, a *Answer) {
	for from := int64(0); from < e.n; from += round {
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.LeanBid(i)
			if b.Auction%123 != 0 {
				continue
			}
			if a.Canon != nil {
				a.Canon.row(b.Auction, b.Price)
				continue
			}
			a.add(nexmark.Row().Num(b.Auction).Num(b.Price))
		}
	}
}
