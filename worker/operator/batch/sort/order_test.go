package sort

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// agree checks what an order promises: prefixes agree with comparisons, and decide where they say so.
func agree[K cmp.Ordered](t *testing.T, g *rapid.Generator[K]) {
	t.Helper()
	for name, o := range map[string]Order[K]{"up": Ascending[K](), "down": Descending[K]()} {
		rapid.Check(t, func(rt *rapid.T) {
			a, b := g.Draw(rt, "a"), g.Draw(rt, "b")
			c := o.Compare(a, b)
			if want := cmp.Compare(a, b); name == "up" && c != want || name == "down" && c != -want {
				rt.Fatalf("%s: %v and %v compare as %d", name, a, b, c)
			}
			p := cmp.Compare(o.Prefix(a), o.Prefix(b))
			if p != 0 && p != c || p == 0 && o.Exact && c != 0 {
				rt.Fatalf("%s: prefixes of %v and %v compare as %d, they as %d", name, a, b, p, c)
			}
			if o.further == nil {
				return
			}
			for depth := 0; p == 0; depth++ {
				if q := o.further(a, depth); q != o.further(b, depth) {
					if got := cmp.Compare(q, o.further(b, depth)); got != c {
						rt.Fatalf("%s: pieces %d of %q and %q compare as %d, they as %d", name, depth, any(a), any(b), got, c)
					}
					return
				} else if o.whole(q) {
					if c != 0 {
						rt.Fatalf("%s: %q and %q are taken for equal", name, any(a), any(b))
					}
					return
				}
			}
		})
	}
}

type celsius float32

func TestPrefixesAgreeWithComparisons(t *testing.T) {
	agree(t, rapid.Int64())
	agree(t, rapid.Int8())
	agree(t, rapid.Int16())
	agree(t, rapid.Int32())
	agree(t, rapid.Uint8())
	agree(t, rapid.Uint16())
	agree(t, rapid.Uint32())
	agree(t, rapid.Uint64())
	special := rapid.SampledFrom([]float64{math.NaN(), -math.NaN(), 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, 1, -1})
	agree(t, rapid.OneOf(rapid.Float64(), special))
	agree(t, rapid.Map(rapid.OneOf(rapid.Float64(), special), func(f float64) celsius { return celsius(f) }))
	agree(t, rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab]{0,20}`), rapid.StringMatching(`a{5,9}\x00{0,9}b?`)))
}

func TestRadixIsAStableSort(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 2, 16, 17, 63, 64, 300, 5000}).Draw(rt, "items")
		mask := rapid.SampledFrom([]uint64{0, 7, 0xff00, math.MaxUint64, 1 << 63}).Draw(rt, "mask")
		seed := rapid.Uint64().Draw(rt, "seed")
		items := make([]item, n)
		for i := range items {
			seed = seed*6364136223846793005 + 1442695040888963407
			items[i] = item{(seed ^ seed>>29) & mask, uint32(i)}
		}
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.prefix, b.prefix) })
		radix(items, make([]item, n+3))
		if !slices.Equal(items, want) {
			rt.Fatal("the library sorts otherwise")
		}
	})
}
