package main

import (
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// opened is about when the first view happens.
var opened = flow.At(time.Date(2026, time.May, 4, 9, 0, 0, 0, time.UTC))

// scatter is a bijection of the 64-bit numbers that looks random (the finaliser of MurmurHash3).
func scatter(i int64) uint64 {
	x := uint64(i)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// view is the stand-in for a broker: view i is a function of i. They come a few seconds apart, most of them in order; some are
// a few minutes behind, and few half an hour.
func (cfg *Config) view(i int64) (View, flow.Time) {
	x := scatter(i)
	at := opened.Add(time.Duration(i) * 4 * time.Second)
	switch x >> 57 {
	case 0:
		at = at.Add(-time.Duration(x>>20%30) * time.Minute)
	case 1, 2, 3, 4, 5, 6, 7:
		at = at.Add(-time.Duration(x>>20%300) * time.Second)
	}
	return View{User: int64(x % uint64(cfg.Users)), Page: "p" + strconv.Itoa(int(x>>40%50)), At: at}, at
}

// views is one split: what is late depends on the order in which views come.
func (cfg *Config) views() flow.Source[View] {
	return generate.Records(cfg.Views, cfg.view, generate.Splits(1))
}
