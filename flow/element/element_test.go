package element_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"pgregory.net/rapid"
)

// near draws numbers of which many are at the limits.
func near(t *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.Int64(), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64), rapid.Int64Range(math.MinInt64, math.MinInt64+3), rapid.Int64Range(-3, 3)).Draw(t, name)
}

// cut is v, or the limit that it exceeds.
func cut(v *big.Int) int64 {
	switch {
	case v.IsInt64():
		return v.Int64()
	case v.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

func TestTimesStopAtTheirLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, d := near(t, "a"), near(t, "b"), time.Duration(near(t, "d"))
		sum := new(big.Int).Add(big.NewInt(a), big.NewInt(d.Microseconds()))
		if got := element.Time(a).Add(d); int64(got) != cut(sum) {
			t.Fatalf("%d + %v is %d, want %v", a, d, got, sum)
		}
		gap := new(big.Int).Sub(big.NewInt(a), big.NewInt(b))
		gap.Mul(gap, big.NewInt(1000))
		if got := element.Time(a).Sub(element.Time(b)); int64(got) != cut(gap) {
			t.Fatalf("%d - %d is %d ns, want %v", a, b, got, gap)
		}
	})
	for _, c := range []struct {
		in   time.Time
		want element.Time
	}{
		{time.Unix(1<<62, 0), element.MaxTime}, {time.Unix(-1<<62, 0), element.MinTime}, {time.Unix(0, 0), 0}, {time.Time{}, -62135596800_000_000},
		{time.Date(9999, 12, 31, 0, 0, 0, 1999, time.UTC), 253402214400_000_001},
	} {
		if got := element.At(c.in); got != c.want {
			t.Errorf("%v is %d, want %d", c.in, got, c.want)
		}
	}
	for _, at := range []element.Time{element.MinTime, element.MaxTime, 0, -1, 1} {
		if got := element.At(at.Std()); got != at {
			t.Errorf("%d comes back as %d", at, got)
		}
	}
}
