package cost

import "github.com/sluiceio/sluice/connector/nexmark"

// chains are linked lists in one slice, for what waits for another record.
type chains[T any] []link[T]

type link[T any] struct {
	v    T
	next int32 // index + 1; 0: the last one
}

// push puts v in front of the list that begins at head, and returns its new head.
func (c *chains[T]) push(head int32, v T) int32 {
	*c = append(*c, link[T]{v, head})
	return int32(len(*c))
}

// q3: auctions of category 10 whose seller lives in one of three states, with the seller.
func q3(e events, a *Answer) {
	type seller struct {
		nexmark.Person
		came bool
		wait int32
	}
	sellers := NewTable[seller](1 << 12)
	var waiting chains[int64]
	row := func(p *nexmark.Person, auction int64) {
		if a.Canon != nil {
			a.Canon.row(p.Name, p.City, p.State, auction)
			return
		}
		a.add(nexmark.Row().Text(p.Name).Text(p.City).Text(p.State).Num(auction))
	}
	for from := int64(0); from < e.n; from += round {
		if p := e.LeanPerson(from); p.State == "OR" || p.State == "ID" || p.State == "CA" {
			s := sellers.At(uint64(p.ID))
			s.Person, s.came = p, true
			for w := s.wait; w != 0; w = waiting[w-1].next {
				row(&s.Person, waiting[w-1].v)
			}
			s.wait = 0
		}
		for i := from + 1; i < min(from+auctionsTo, e.n); i++ {
			x := e.LeanAuction(i)
			if x.Category != 10 {
				continue
			}
			if s := sellers.At(uint64(x.Seller)); s.came {
				row(&s.Person, x.ID)
			} else {
				s.wait = waiting.push(s.wait, x.ID)
			}
		}
	}
}

// lot is an auction with its best valid bid so far.
type lot struct {
	nexmark.Auction
	best nexmark.Bid // price 0: none
}

// winners calls won with every auction that has a valid bid, when it has expired.
func winners(e events, bid func(int64) nexmark.Bid, auction func(int64) nexmark.Auction, won func(*lot)) {
	open := NewTable[lot](1 << 9)
	expired := func(l *lot) {
		if l.best.Price > 0 {
			won(l)
		}
	}
	for from := int64(0); from < e.n; from += round {
		for i := from + 1; i < min(from+auctionsTo, e.n); i++ {
			x := auction(i)
			if open.Full() {
				open.Keep(func(l *lot) bool {
					if l.Expires >= x.At {
						return true
					}
					expired(l)
					return false
				})
			}
			open.At(uint64(x.ID)).Auction = x
		}
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := bid(i)
			if l := open.Find(uint64(b.Auction)); l != nil && b.At <= l.Expires && b.Price > l.best.Price {
				l.best = b
			}
		}
	}
	open.Each(func(_ uint64, l *lot) { expired(l) })
}

// q4: the mean winning price per category.
func q4(e events, a *Answer) {
	type mean struct{ sum, count int64 }
	means := NewTable[mean](8)
	winners(e, e.LeanBid, e.LeanAuction, func(l *lot) {
		m := means.At(uint64(l.Category))
		m.sum += l.best.Price
		m.count++
	})
	means.Each(func(k uint64, m *mean) {
		if a.Canon != nil {
			a.Canon.row(int64(k), m.sum/m.count)
			return
		}
		a.add(nexmark.Row().Num(int64(k)).Num(m.sum / m.count))
	})
}

// q9: every auction that has a valid bid, with the best one.
func q9(e events, a *Answer) {
	winners(e, e.LeanBid, e.auction, func(l *lot) {
		x, b := &l.Auction, &l.best
		if a.Canon != nil {
			a.Canon.row(x.ID, x.Item, x.InitialBid, x.Reserve, x.At, x.Expires, x.Seller, x.Category, b.Bidder, b.Price, b.At)
			return
		}
		a.add(nexmark.Row().Num(x.ID).Text(x.Item).Num(x.InitialBid).Num(x.Reserve).Time(x.At).Time(x.Expires).
			Num(x.Seller).Num(x.Category).Num(b.Bidder).Num(b.Price).Time(b.At))
	})
}

// q20: bids on auctions of category 10, with the auction. Bids may come before their auction.
func q20(e events, a *Answer) {
	type entry struct {
		came bool
		at   int32 // of the auction, + 1; 0: another category
		wait int32
	}
	known := NewTable[entry](1 << 12)
	var items []nexmark.Auction
	var waiting chains[nexmark.Bid]
	row := func(b *nexmark.Bid, x *nexmark.Auction) {
		if a.Canon != nil {
			a.Canon.row(b.Auction, b.Bidder, b.Price, b.Channel, b.URL, b.At, x.Item, x.InitialBid, x.Reserve, x.At, x.Expires, x.Seller, x.Category)
			return
		}
		a.add(nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Text(b.Channel).Text(b.URL).Time(b.At).Text(x.Item).
			Num(x.InitialBid).Num(x.Reserve).Time(x.At).Time(x.Expires).Num(x.Seller).Num(x.Category))
	}
	for from := int64(0); from < e.n; from += round {
		for i := from + 1; i < min(from+auctionsTo, e.n); i++ {
			x := e.auction(i)
			k := known.At(uint64(x.ID))
			k.came = true
			if x.Category != 10 {
				continue
			}
			items = append(items, x)
			k.at = int32(len(items))
			for w := k.wait; w != 0; w = waiting[w-1].next {
				row(&waiting[w-1].v, &x)
			}
		}
		for i := from + firstBid; i < min(from+round, e.n); i++ {
			b := e.bid(i)
			switch k := known.At(uint64(b.Auction)); {
			case k.at != 0:
				row(&b, &items[k.at-1])
			case !k.came:
				k.wait = waiting.push(k.wait, b)
			}
		}
	}
}
