package main

import (
	"time"

	"github.com/sluiceio/sluice/flow"
)

// opened is when the first payment is made.
var opened = flow.At(time.Date(2026, time.May, 4, 9, 0, 0, 0, time.UTC))

// scatter is a bijection of the 64-bit numbers that looks random (the finaliser of MurmurHash3).
func scatter(i int64) uint64 {
	x := uint64(i)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// payment is the stand-in for a broker: payment i is a function of i. One of four is small, one of eight large.
func (cfg *Config) payment(i int64) (Payment, flow.Time) {
	x := scatter(i)
	cents := int64(x >> 20 % 40_000)
	switch x >> 60 {
	case 0, 1, 2, 3:
		cents %= 150
	case 4, 5:
		cents += 40_000
	}
	at := opened.Add(time.Duration(i) * 300 * time.Millisecond)
	return Payment{Account: int64(x % uint64(cfg.Accounts)), Cents: cents, At: at}, at
}
