package nexmark

import (
	"strconv"

	"github.com/sluiceio/sluice/flow/element"
)

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// row builds a canonical row: fields joined by '|'.
type row []byte

func (r row) text(s string) row {
	if len(r) > 0 {
		r = append(r, '|')
	}
	return append(r, s...)
}

func (r row) num(v int64) row {
	if len(r) > 0 {
		r = append(r, '|')
	}
	return appendInt(r, v)
}

func (r row) time(t element.Time) row { return r.num(int64(t)) }

// String is the canonical row: id|name|email|creditCard|city|state|time.
func (p Person) String() string {
	return string(row(nil).num(p.ID).text(p.Name).text(p.Email).text(p.CreditCard).text(p.City).text(p.State).time(p.At))
}

// String is the canonical row: id|item|initialBid|reserve|time|expires|seller|category.
func (a Auction) String() string {
	return string(row(nil).num(a.ID).text(a.Item).num(a.InitialBid).num(a.Reserve).time(a.At).time(a.Expires).num(a.Seller).num(a.Category))
}

// String is the canonical row: auction|bidder|price|channel|url|time.
func (b Bid) String() string {
	return string(row(nil).num(b.Auction).num(b.Bidder).num(b.Price).text(b.Channel).text(b.URL).time(b.At))
}
