package main

import (
	"time"

	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// The stand-ins for a data lake and a broker: each record is a function of its number, the same on every machine.

// opened is when the first order comes in.
var opened = flow.At(time.Date(2026, time.May, 4, 9, 0, 0, 0, time.UTC))

// scatter is a bijection of the 64-bit numbers that looks random (the finaliser of MurmurHash3).
func scatter(i int64) uint64 {
	x := uint64(i)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func customer(i int64) (Customer, flow.Time) {
	tier := "basic"
	switch {
	case i%10 == 0:
		tier = "gold"
	case i%4 == 0:
		tier = "silver"
	}
	return Customer{ID: i, Tier: tier}, 0
}

// purchase goes to nine customers of ten; the others have bought nothing yet.
func (cfg *Config) purchase(i int64) (Purchase, flow.Time) {
	x := scatter(i)
	return Purchase{Customer: int64(x % uint64(max(1, cfg.Customers*9/10))), Cents: int64(x >> 32 % 90_00)}, 0
}

// order is one of any customer, 20 ms after the one before.
func (cfg *Config) order(i int64) (Order, flow.Time) {
	x := scatter(-1 - i)
	at := opened.Add(time.Duration(i) * 20 * time.Millisecond)
	return Order{Customer: int64(x % uint64(max(1, cfg.Customers))), Article: int64(x >> 40 % 500), Cents: int64(x >> 20 % 200_00), At: at}, at
}

func (cfg *Config) orders() flow.Source[Order] {
	if cfg.Orders == 0 {
		return generate.Endless(cfg.order, generate.Rate(cfg.Rate))
	}
	return generate.Records(cfg.Orders, cfg.order, generate.Rate(cfg.Rate))
}
