package nexmark

import (
	"github.com/sluiceio/sluice/flow/element"
)

var (
	firstNames = [...]string{"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"}
	lastNames  = [...]string{"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"}
	cities     = [...]string{"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"}
	states     = [...]string{"AZ", "CA", "ID", "OR", "WA", "WY"}
	channels   = [...]string{"Google", "Facebook", "Baidu", "Apple"}
	// fullNames are all pairs, so that a name costs no concatenation.
	fullNames = pairs()
)

func pairs() (names [len(firstNames) * len(lastNames)]string) {
	for i, f := range firstNames {
		for k, l := range lastNames {
			names[i*len(lastNames)+k] = f + " " + l
		}
	}
	return names
}

// Person is a new user.
type Person struct {
	ID                                   int64
	Name, Email, CreditCard, City, State string
	At                                   element.Time
}

// Auction is a new auction.
type Auction struct {
	ID                  int64
	Item                string
	InitialBid, Reserve int64
	At, Expires         element.Time
	Seller, Category    int64
}

// Bid is a bid on an auction.
type Bid struct {
	Auction, Bidder, Price int64
	Channel, URL           string
	At                     element.Time
}

// Time is the event time.
func (p Person) Time() element.Time { return p.At }

// Time is the event time.
func (a Auction) Time() element.Time { return a.At }

// Time is the event time.
func (b Bid) Time() element.Time { return b.At }

// PersonID is the id of the person that event i, of kind person, introduces.
func PersonID(i int64) int64 { return firstID + i/round }

// AuctionID is the id of the auction that event i, of kind auction, opens.
func AuctionID(i int64) int64 { return firstID + auctionsPerRound*(i/round) + i%round - 1 }

// Person is event i, which must be of that kind.
func (g Generator) Person(i int64) Person {
	d := g.draws(i)
	return Person{
		ID: PersonID(i), Name: d.name(), Email: d.email(), CreditCard: d.creditCard(),
		City: d.city(), State: d.state(), At: g.Time(i),
	}
}

// LeanPerson is Person without email and credit card.
func (g Generator) LeanPerson(i int64) Person {
	d := g.draws(i)
	return Person{ID: PersonID(i), Name: d.name(), City: d.city(), State: d.state(), At: g.Time(i)}
}

func (d draws) name() string {
	return fullNames[d.bounded(1, uint64(len(firstNames)))*int64(len(lastNames))+d.bounded(2, uint64(len(lastNames)))]
}

func (d draws) city() string  { return cities[d.bounded(6, uint64(len(cities)))] }
func (d draws) state() string { return states[d.bounded(7, uint64(len(states)))] }

func (d draws) email() string {
	var b [17]byte
	s := append(d.word(b[:0], 3, 7), '@')
	return string(append(d.word(s, 4, 5), ".com"...))
}

// creditCard is a number of 16 digits in groups of four.
func (d draws) creditCard() string {
	n := d.bounded(5, 1e16)
	b := [19]byte{4: ' ', 9: ' ', 14: ' '}
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != ' ' {
			b[i] = '0' + byte(n%10)
			n /= 10
		}
	}
	return string(b[:])
}

// Auction is event i, which must be of that kind.
func (g Generator) Auction(i int64) Auction {
	a := g.LeanAuction(i)
	var b [10]byte
	a.Item = string(g.draws(i).word(b[:0], 1, len(b)))
	return a
}

// LeanAuction is Auction without the item's name.
func (g Generator) LeanAuction(i int64) Auction {
	d := g.draws(i)
	initial := g.price(d, 2)
	return Auction{
		ID: AuctionID(i), InitialBid: initial, Reserve: initial + g.price(d, 3), At: g.Time(i),
		Expires: g.Time(i) + 1 + element.Time(d.bounded(7, uint64(2*1666*g.usPerEvent))), Seller: d.seller(i), Category: 10 + d.bounded(6, 5),
	}
}

// seller: three quarters belong to one hot person of each hundred.
func (d draws) seller(i int64) int64 {
	last := i / round
	if d.bounded(4, 4) > 0 {
		return firstID + last/100*100
	}
	return firstID + d.recent(5, last, personWindow)
}

// Bid is event i, which must be of that kind.
func (g Generator) Bid(i int64) Bid {
	b := g.LeanBid(i)
	b.Channel, b.URL = g.draws(i).channel()
	return b
}

// LeanBid is Bid without channel and URL.
func (g Generator) LeanBid(i int64) Bid {
	var b Bid
	g.leanBid(i, &b)
	return b
}

func (g *Generator) leanBid(i int64, b *Bid) {
	d := g.draws(i)
	*b = Bid{Auction: d.auction(i), Bidder: d.bidder(i), Price: g.price(d, 5), At: g.Time(i)}
}

// auction: half of the bids are on one hot auction of each hundred.
func (d draws) auction(i int64) int64 {
	last := auctionsPerRound*(i/round) + auctionsPerRound - 1
	if d.bounded(1, 2) > 0 {
		return firstID + last/100*100
	}
	return firstID + d.recent(2, last, auctionWindow)
}

// bidder: three quarters come from one hot person of each hundred, who may be one person ahead of the newest.
func (d draws) bidder(i int64) int64 {
	last := i / round
	if d.bounded(3, 4) > 0 {
		return firstID + last/100*100 + 1
	}
	return firstID + d.recent(4, last, personWindow)
}

func (d draws) channel() (name, url string) {
	var b [96]byte
	u := append(b[:0], "https://www.nexmark.com/"...)
	u = append(d.word(u, 8, 5), '/')
	u = append(d.word(u, 9, 5), '/')
	u = append(d.word(u, 10, 5), "/item.htm?query=1"...)
	if d.bounded(6, 2) > 0 {
		return channels[d.bounded(7, uint64(len(channels)))], string(u)
	}
	var nb [16]byte
	n := appendInt(nb[:0], d.bounded(7, 10000))
	if d.bounded(11, 10) > 0 {
		u = append(append(u, "&channel_id="...), n...)
	}
	return "channel-" + string(n), string(u)
}
