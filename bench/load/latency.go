package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluiceio/sluice/connector/nexmark"
	"github.com/sluiceio/sluice/flow"
)

// Latency are percentiles, in milliseconds.
type Latency struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	P9999 float64 `json:"p99.99"`
	Max   float64 `json:"max"`
	Count int64   `json:"count"`
}

// lateness measures how long after its due time a row comes. The source is an open loop: an event is due when its rate says, whether
// the job keeps up or not. A row of a window has the time of the window's last instant.
type lateness struct {
	perEvent time.Duration
	us       int64
	begun    atomic.Int64 // wall time, in nanoseconds; 0: not yet
	mu       struct {
		sync.Mutex
		h *hdrhistogram.Histogram // of microseconds
	}
}

func newLateness(o *options) *lateness {
	l := &lateness{perEvent: time.Second / time.Duration(o.rate), us: o.usPerEvent}
	l.mu.h = hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	return l
}

func (l *lateness) started(t time.Time) { l.begun.CompareAndSwap(0, t.UnixNano()) }

func (l *lateness) seen(at flow.Time) {
	due := l.begun.Load() + int64(at-nexmark.Epoch)/l.us*int64(l.perEvent)
	late := max(1, (time.Now().UnixNano()-due)/1000)
	l.mu.Lock()
	_ = l.mu.h.RecordValue(min(late, time.Minute.Microseconds())) // in range
	l.mu.Unlock()
}

// result of the run; nil without a rate.
func (l *lateness) result() *Latency {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(q float64) float64 { return float64(l.mu.h.ValueAtQuantile(q)) / 1000 }
	return &Latency{at(50), at(99), at(99.9), at(99.99), float64(l.mu.h.Max()) / 1000, l.mu.h.TotalCount()}
}
