package query

import (
	"strings"

	"github.com/sluiceio/sluice/connector/nexmark"
)

// euros is a price in the other currency.
func euros(price int64) int64 { return price * 908 / 1000 }

func plain(r row, b nexmark.Bid) row { return r.nums(b.Auction, b.Bidder, b.Price).time(b.At) }

func plainFields(b nexmark.Bid) uint64 {
	return nexmark.Row().Num(b.Auction).Num(b.Bidder).Num(b.Price).Time(b.At).Hash()
}

// passThrough (q0): every bid.
func passThrough(s *streams) { write(s, s.leanBids(), plain, plainFields) }

// currency (q1): every bid with its price in euros.
func currency(s *streams) {
	write(s, s.leanBids().Map(func(b nexmark.Bid) nexmark.Bid {
		b.Price = euros(b.Price)
		return b
	}).ID("euros"), plain, plainFields)
}

// selection (q2): the bids on some auctions.
func selection(s *streams) {
	write(s, s.leanBids().Filter(func(b nexmark.Bid) bool { return b.Auction%123 == 0 }).ID("some-auctions"),
		func(r row, b nexmark.Bid) row { return r.nums(b.Auction, b.Price) },
		func(b nexmark.Bid) uint64 { return nexmark.Row().Num(b.Auction).Num(b.Price).Hash() })
}

// calculation (q14): bids in a range of prices, with the time of day and the number of letters c in their URL.
func calculation(s *streams) {
	write(s, s.bids().Filter(func(b nexmark.Bid) bool {
		p := euros(b.Price)
		return p > 1_000_000 && p < 50_000_000
	}).ID("in-range"), func(r row, b nexmark.Bid) row {
		return r.nums(b.Auction, b.Bidder, euros(b.Price)).text(timeOfDay(b.At.Std().Hour())).time(b.At).num(int64(strings.Count(b.URL, "c")))
	})
}

func timeOfDay(hour int) string {
	switch {
	case hour >= 8 && hour <= 18:
		return "dayTime"
	case hour <= 6 || hour >= 20:
		return "nightTime"
	}
	return "otherTime"
}

// channelIDs (q21): bids with the number of their channel, where it has one.
func channelIDs(s *streams) {
	write(s, s.bids().Filter(func(b nexmark.Bid) bool { return channelID(b) != "" }).ID("with-channel"),
		func(r row, b nexmark.Bid) row {
			return r.nums(b.Auction, b.Bidder, b.Price).text(b.Channel).text(channelID(b))
		})
}

func channelID(b nexmark.Bid) string {
	switch b.Channel {
	case "Apple":
		return "0"
	case "Google":
		return "1"
	case "Facebook":
		return "2"
	case "Baidu":
		return "3"
	}
	_, id, _ := strings.Cut(b.URL, "&channel_id=")
	id, _, _ = strings.Cut(id, "&")
	return id
}

// urlWords (q22): bids with the three words of their URL.
func urlWords(s *streams) {
	write(s, s.bids(), func(r row, b nexmark.Bid) row {
		words := strings.SplitN(b.URL, "/", 7)
		return r.nums(b.Auction, b.Bidder, b.Price).text(b.Channel).text(words[3]).text(words[4]).text(words[5])
	})
}
