package ratio

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sluiceio/sluice/internal/invariant"
)

// Work performs n units of work. It is called many times, with different n.
type Work func(n int)

// Clock is what a comparison is judged by.
type Clock int

const (
	Wall Clock = iota
	CPU        // user and system time of the process
)

func (c Clock) String() string {
	if c == CPU {
		return "CPU"
	}
	return "wall"
}

const (
	rounds   = 15
	roundMin = 10 * time.Millisecond // a round shorter than this measures the clock
	attempts = 6
)

// Ratio is the outcome of a comparison.
type Ratio struct {
	Wall, CPU Figures
	// Units of work in one round; chosen so that a round of the baseline takes at least 10 ms.
	Units int
}

// Figures are one clock's view.
type Figures struct {
	Baseline, Subject float64 // least nanoseconds per unit
	MinRatio          float64 // Subject / Baseline
	MedianRatio       float64 // median of subject over baseline, round by round
}

// Best is the ratio that a goal is compared with.
func (f Figures) Best() float64 { return math.Min(f.MinRatio, f.MedianRatio) }

// By returns the figures of a clock.
func (r Ratio) By(c Clock) Figures {
	if c == CPU {
		return r.CPU
	}
	return r.Wall
}

func (f Figures) String() string {
	return fmt.Sprintf("%.1f ns against %.1f ns a unit, ratio %.2f (median %.2f)", f.Subject, f.Baseline, f.MinRatio, f.MedianRatio)
}

// Compare runs baseline and subject in turns and reports how they compare.
func Compare(tb testing.TB, baseline, subject Work) Ratio {
	tb.Helper()
	n := calibrate(baseline)
	subject(n) // warm: pools, caches, lazy tables
	var base, subj [rounds]reading
	for i := range rounds {
		base[i], subj[i] = measure(baseline, n), measure(subject, n)
	}
	wall := figures(base[:], subj[:], n, func(r reading) time.Duration { return r.wall })
	cpu := figures(base[:], subj[:], n, func(r reading) time.Duration { return r.cpu })
	return Ratio{Wall: wall, CPU: cpu, Units: n}
}

// AtMost fails the test if subject takes more than limit times as long as baseline in every one of a few comparisons.
func AtMost(tb testing.TB, limit float64, clock Clock, baseline, subject Work) {
	tb.Helper()
	if invariant.Enabled {
		baseline(1)
		subject(1)
		tb.Skip("times mean nothing in a build with run-time checks: make speed")
	}
	var best Ratio
	for attempt := range attempts {
		r := Compare(tb, baseline, subject)
		if attempt == 0 || r.By(clock).Best() < best.By(clock).Best() {
			best = r
		}
		if best.By(clock).Best() <= limit {
			tb.Logf("%s time: %v; limit %.2f", clock, best.By(clock), limit)
			return
		}
	}
	tb.Errorf("%s time: %v; the limit is %.2f, best of %d comparisons", clock, best.By(clock), limit, attempts)
}

// calibrate finds how much work takes a round.
func calibrate(w Work) int {
	n := 1
	for {
		took := measure(w, n).wall
		if took >= roundMin || n >= 1<<30 {
			return n
		}
		// Aim a little beyond; never more than a hundredfold, since the first calls are cold.
		factor := 1.2 * float64(roundMin) / float64(max(took, time.Nanosecond))
		n = int(float64(n)*math.Min(100, math.Max(2, factor))) + 1
	}
}

type reading struct{ wall, cpu time.Duration }

// measure starts from a collected heap, so that no round pays for the garbage of another.
func measure(w Work, n int) reading {
	runtime.GC()
	cpu, start := processCPU(), time.Now()
	w(n)
	return reading{wall: time.Since(start), cpu: processCPU() - cpu}
}

func figures(base, subj []reading, n int, clock func(reading) time.Duration) Figures {
	leastBase, leastSubj := math.Inf(1), math.Inf(1)
	ratios := make([]float64, len(base))
	for i := range base {
		// A clock that did not move would divide by zero; a round is long enough that one nanosecond is nothing.
		b, s := float64(max(1, clock(base[i]))), float64(max(1, clock(subj[i])))
		leastBase, leastSubj = math.Min(leastBase, b), math.Min(leastSubj, s)
		ratios[i] = s / b
	}
	slices.Sort(ratios)
	return Figures{
		Baseline: leastBase / float64(n), Subject: leastSubj / float64(n),
		MinRatio: leastSubj / leastBase, MedianRatio: ratios[len(ratios)/2],
	}
}
