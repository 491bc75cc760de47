package main

import (
	"strconv"
	"time"

	"github.com/sluiceio/sluice/flow"
)

// opened is when the first search is made, about.
var opened = flow.At(time.Date(2026, time.May, 4, 9, 0, 0, 0, time.UTC))

// disorder is how far behind a newer one a record may come.
const disorder = 5 * time.Second

// Salts keep the inputs apart.
const (
	ofSearches = 1 << 40
	ofClicks   = 2 << 40
	ofChanges  = 3 << 40
)

// scatter is a bijection of the 64-bit numbers that looks random (the finaliser of MurmurHash3).
func scatter(i int64) uint64 {
	x := uint64(i)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// moment is when record i happens: one a second, about, and up to five seconds behind newer ones.
func moment(i int64, x uint64) flow.Time {
	return opened.Add(time.Duration(i)*time.Second - time.Duration(x>>40%5_000)*time.Millisecond)
}

// search is the stand-in for a broker: search i is a function of i.
func (cfg *Config) search(i int64) (Search, flow.Time) {
	x := scatter(i + ofSearches)
	s := Search{User: cfg.user(x), Query: "query " + strconv.Itoa(int(x>>20%40)), At: moment(i, x)}
	return s, s.At
}

// click is the stand-in for another broker.
func (cfg *Config) click(i int64) (Click, flow.Time) {
	x := scatter(i + ofClicks)
	c := Click{User: cfg.user(x), Item: int64(x >> 20 % items), At: moment(i, x)}
	return c, c.At
}

func (cfg *Config) user(x uint64) int64 { return int64(x % uint64(cfg.Users)) }

// change is the stand-in for the table of users: each user has a standing from the beginning, and gets another one later.
func (cfg *Config) change(i int64) (Change, flow.Time) {
	x := scatter(i + ofChanges)
	c := Change{User: i % cfg.Users, At: opened.Add(-time.Hour), Standing: Standing{Premium: x%3 == 0}}
	if i >= cfg.Users {
		c.At = opened.Add(time.Duration(x>>30%3600) * time.Second)
	}
	for n := range x >> 8 % 4 {
		c.Standing.Blocked = append(c.Standing.Blocked, int64(scatter(int64(x>>1)+int64(n))%items))
	}
	return c, c.At
}
