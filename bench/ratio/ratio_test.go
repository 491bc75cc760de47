package ratio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/invariant"
)

var sink uint64

// spin works for n units of the given weight.
func spin(weight int) Work {
	return func(n int) {
		x := sink | 1
		for range n * weight {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		sink = x
	}
}

func TestSpeedRatioIsThatOfTheWork(t *testing.T) {
	if invariant.Enabled {
		t.Skip("times mean nothing here")
	}
	var got []string
	for range attempts {
		r := Compare(t, spin(100), spin(300))
		if r.Wall.Best() > 2.5 && r.Wall.Best() < 3.5 && r.CPU.Best() > 2.5 && r.CPU.Best() < 3.5 {
			return
		}
		got = append(got, fmt.Sprint("wall ", r.Wall, ", CPU ", r.CPU))
	}
	t.Errorf("three times the work took\n%s", strings.Join(got, "\n"))
}

type recorder struct {
	testing.TB
	errors, skips int
}

func (r *recorder) Errorf(string, ...any) { r.errors++ }
func (r *recorder) Skip(...any)           { r.skips++; panic(r) }

func atMost(t *testing.T, limit float64, subject Work) (r *recorder) {
	r = &recorder{TB: t}
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
	}()
	AtMost(r, limit, Wall, spin(100), subject)
	return r
}

func TestSpeedLimitIsEnforced(t *testing.T) {
	calls := 0
	counted := func(n int) { calls++; spin(100)(n) }
	if invariant.Enabled {
		if r := atMost(t, 0.01, counted); r.skips != 1 || r.errors != 0 || calls != 1 {
			t.Errorf("%d skips, %d errors, %d calls; under the detector the work runs once and is not judged", r.skips, r.errors, calls)
		}
		return
	}
	if r := atMost(t, 2, counted); r.errors != 0 {
		t.Error("equal work exceeded twice the time, in every comparison")
	}
	if r := atMost(t, 2, spin(400)); r.errors != 1 {
		t.Errorf("%d errors for four times the work with a limit of two", r.errors)
	}
}
