package function

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/codec"
)

// pages gives the numbers up to n in pages of unequal length; an offset is more than an integer.
type offset struct{ Page, Record int }

func pages(n int) Next[int, offset] {
	return func(_ context.Context, at offset) (vs []int, next offset, err error) {
		for range at.Page%4 + 1 {
			if at.Record+len(vs) < n {
				vs = append(vs, at.Record+len(vs))
			}
		}
		next = offset{at.Page + 1, at.Record + len(vs)}
		if at.Page%3 == 2 { // a page may be empty
			return nil, offset{at.Page + 1, at.Record}, nil
		}
		if next.Record == n {
			err = io.EOF
		}
		return vs, next, err
	}
}

func upTo(n int) (vs []int) {
	for i := range n {
		vs = append(vs, i)
	}
	return vs
}

func TestSourceConformance(t *testing.T) {
	for _, n := range []int{3, 50} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			suite.TestSource(t, suite.Source[int]{
				Want: upTo(n), Name: strconv.Itoa,
				Open: func(testing.TB) connector.Source[int] { return PollAll(offset{}, pages(n)) },
			})
		})
	}
}

func TestSinkConformance(t *testing.T) {
	suite.TestSink(t, suite.Sink[string]{
		Values: []string{"a", "b", "c", "d", "e", "f"},
		Name:   func(v string) string { return v },
		Open: func(testing.TB) suite.Place[string] {
			var mu struct {
				sync.Mutex
				rows []string
			}
			return suite.Place[string]{
				Sink: Sink(func(_ context.Context, vs []string) error {
					mu.Lock()
					defer mu.Unlock()
					mu.rows = append(mu.rows, vs...)
					return nil
				}),
				Visible: func(testing.TB) []string { return mu.rows },
			}
		},
	})
}

func reading[T any](t *testing.T, src connector.Source[T], from ...connector.Split) connector.Reader[T] {
	t.Helper()
	if len(from) == 0 {
		e, err := src.OpenEnumerator(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if from, err = e.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	r, err := src.OpenReader(t.Context(), &connector.Task{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Assign(from); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAFunctionThatHasNothingIsLeftAloneAndGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		src := Poll(0, func(context.Context, int) ([]int, int, error) {
			if calls++; calls < 20 {
				return nil, calls, nil
			}
			return []int{7}, calls, nil
		})
		if src.Bounded() {
			t.Error("bounded")
		}
		r := reading[int](t, src)
		begun := time.Now()
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			out := connector.Records[int]{Max: 1}
			called := time.Now()
			if err := r.Poll(ctx, &out); err != nil {
				t.Fatal(err)
			}
			cancel()
			if waited := time.Since(called); waited > 100*time.Millisecond {
				t.Fatalf("Poll took %v, its context ended after 100ms", waited)
			}
			if len(out.Vals) == 1 {
				break
			}
		}
		if calls != 20 || time.Since(begun) < time.Second {
			t.Errorf("%d calls in %v", calls, time.Since(begun))
		}
	})
}

func TestABlockingFunctionThatGivesWayIsNoError(t *testing.T) {
	r := reading[int](t, Poll(0, func(ctx context.Context, _ int) ([]int, int, error) {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Poll(ctx, &connector.Records[int]{Max: 1}); err != nil {
		t.Error(err)
	}
}

var errDown = errors.New("down")

func TestErrorsOfFunctionsFailWithTheirPlace(t *testing.T) {
	r := reading[int](t, Poll(0, func(_ context.Context, at int) ([]int, int, error) {
		if at > 0 {
			return nil, at, errDown
		}
		return []int{1, 2}, 1, nil
	}))
	out := connector.Records[int]{Max: 5}
	if err := r.Poll(t.Context(), &out); err != nil || len(out.Vals) != 2 {
		t.Fatal(out.Vals, err)
	}
	out.Reset()
	if err := r.Poll(t.Context(), &out); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "after 2 records") {
		t.Error(err)
	}
}

func TestAFunctionThatForgetsWhatItHasReturnedIsFound(t *testing.T) {
	n := 3
	src := Poll(0, func(_ context.Context, at int) ([]int, int, error) { return upTo(n), at + 1, nil })
	r := reading[int](t, src)
	if err := r.Poll(t.Context(), &connector.Records[int]{Max: 2}); err != nil {
		t.Fatal(err)
	}
	splits, err := r.Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	n = 2
	again := reading[int](t, src, splits...)
	if err := again.Poll(t.Context(), &connector.Records[int]{Max: 2}); err == nil || !strings.Contains(err.Error(), "the same offset must give the same records") {
		t.Error(err)
	}
	n = 5 // more is fine
	out := connector.Records[int]{Max: 10}
	more := reading[int](t, src, splits...)
	if err := more.Poll(t.Context(), &out); err != nil || !slices.Equal(out.Vals, []int{2, 3, 4}) || out.Pos[0] != 2 {
		t.Error(out.Vals, out.Pos, err)
	}
}

func TestWhatMakesNoSenseIsFoundAtPlanTime(t *testing.T) {
	var none Next[int, int]
	bad := Poll(func() {}, func(context.Context, func()) ([]int, func(), error) { return nil, nil, nil })
	for _, src := range []connector.Source[int]{Poll(0, none), bad} {
		if err := src.(connector.Checker).Check(); err == nil {
			t.Errorf("%v is accepted", src)
		}
	}
	if err := PollAll(offset{}, pages(1)).(connector.Checker).Check(); err != nil {
		t.Error(err)
	}
}

func TestASinkWithoutAFunctionOrWithAFailingOneFails(t *testing.T) {
	if _, err := Sink[int](nil).OpenWriter(t.Context(), &connector.Task{}, nil); !connector.IsFatal(err) {
		t.Error(err)
	}
	calls := 0
	w, err := Sink(func(_ context.Context, vs []int) error {
		if calls++; calls == 1 {
			return errDown
		}
		return nil
	}).OpenWriter(t.Context(), &connector.Task{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range batch - 1 {
		if err := w.Write(t.Context(), i, 0); err != nil || calls > 0 {
			t.Fatal(calls, err)
		}
	}
	if err := w.Write(t.Context(), 1, 0); !errors.Is(err, errDown) || calls != 1 {
		t.Errorf("a full batch: %d calls, %v", calls, err)
	}
}

func FuzzASplitIsReadAsWritten(f *testing.F) {
	c, err := codec.Of[offset](nil)
	if err != nil {
		f.Fatal(err)
	}
	s, err := encode(c, position[offset]{offset{3, 9}, 2, 11})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.ID, s.Version, s.Data)
	f.Add(splitID, uint16(splitVersion), []byte{1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, id string, version uint16, data []byte) {
		p, err := decode(c, connector.Split{ID: id, Version: version, Data: data})
		if err != nil {
			return
		}
		s, err := encode(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := decode(c, s); err != nil || again != p {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
	})
}
