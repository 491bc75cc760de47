package generate

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/element"
)

func square(i int64) (int64, element.Time) { return i * i, element.Time(i) }

func squares(n int64) (vs []int64) {
	for i := range n {
		vs = append(vs, i*i)
	}
	return vs
}

func TestConformance(t *testing.T) {
	name := func(v int64) string { return strconv.FormatInt(v, 10) }
	for _, n := range []int64{3, block, 5*block + 17} {
		s := suite.Source[int64]{Want: squares(n), Name: name,
			Open: func(testing.TB) connector.Source[int64] { return Records(n, square) }}
		if n < 10 {
			s.Slow = func(testing.TB) connector.Source[int64] { return Records(n, square, Rate(1)) }
		}
		t.Run(name(n), func(t *testing.T) { suite.TestSource(t, s) })
	}
}

func TestTimesNeverFallWithinASplit(t *testing.T) {
	src := Records(3000, square)
	e, err := src.OpenEnumerator(t.Context(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	splits, err := e.Next(t.Context())
	if !errors.Is(err, io.EOF) || len(splits) != 3 {
		t.Fatalf("%d splits, %v", len(splits), err)
	}
	for _, sp := range splits {
		r, err := src.OpenReader(t.Context(), &connector.Task{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Assign([]connector.Split{sp}); err != nil {
			t.Fatal(err)
		}
		last := element.MinTime
		for err == nil {
			out := connector.Records[int64]{Max: 100}
			err = r.Poll(t.Context(), &out)
			for _, at := range out.Times {
				if at <= last {
					t.Fatalf("split %s: %d after %d", sp.ID, at, last)
				}
				last = at
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

func TestAnEndlessGeneratorGoesOn(t *testing.T) {
	src := Endless(square)
	if src.Bounded() {
		t.Error("bounded")
	}
	e, err := src.OpenEnumerator(t.Context(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	splits, err := e.Next(t.Context())
	if err != nil || len(splits) != 2 {
		t.Fatalf("%d splits, %v", len(splits), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("discovery after its end: %v", err)
	}
	r, err := src.OpenReader(t.Context(), &connector.Task{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Assign(splits); err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < 100_000 {
		out := connector.Records[int64]{Max: 512}
		if err := r.Poll(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		n += out.Len()
	}
}

func TestSplitsAreAsManyAsAskedFor(t *testing.T) {
	src := Records(10_000, square, Splits(16))
	e, err := src.OpenEnumerator(t.Context(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if splits, _ := e.Next(t.Context()); len(splits) != 16 {
		t.Errorf("%d splits", len(splits))
	}
	suite.TestSource(t, suite.Source[int64]{Want: squares(10_000), Name: func(v int64) string { return strconv.FormatInt(v, 10) },
		Open: func(testing.TB) connector.Source[int64] { return Records(10_000, square, Splits(16)) }})
}
