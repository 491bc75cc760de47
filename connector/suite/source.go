package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/connector"
)

// Source describes a bounded source under test.
type Source[T any] struct {
	// Open makes the source. Every call gives the same records.
	Open func(t testing.TB) connector.Source[T]
	// Want are all records, in any order; at least three.
	Want []T
	// Name makes a record comparable; equal records have equal names.
	Name func(T) string
	// Slow is the source limited to one record per second, if it can be limited.
	Slow func(t testing.TB) connector.Source[T]
}

// limit is what a broken connector may do before the suite gives up on it.
const limit = 100_000

// TestSource checks that a source delivers every record once, wherever its readers are stopped, moved and continued.
func TestSource[T any](t *testing.T, s Source[T]) {
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"bounded without touching the outside", s.bounded},
		{"splits have ids of their own and discovery ends", s.discovery},
		{"discovery finds the same splits again", s.discoveredAgain},
		{"every record once at any parallelism", s.complete},
		{"a split gives the same records again", s.repeatable},
		{"continues from every position", s.positions},
		{"splits move to other readers", s.moved},
		{"a reader without splits has nothing", s.idle},
		{"records carry splits, positions and places", s.described},
		{"a done context ends Poll early", s.interrupted},
		{"a foreign split is refused", s.foreign},
		{"a waiting Poll gives way", s.waiting},
		{"paused splits are left alone", s.paused},
	} {
		t.Run(c.name, c.test)
	}
}

func (s Source[T]) names(vs []T) []string {
	names := make([]string, 0, len(vs))
	for _, v := range vs {
		names = append(names, s.Name(v))
	}
	return names
}

// same compares records in any order.
func (s Source[T]) same(t *testing.T, got []string, when string) {
	t.Helper()
	want := s.names(s.Want)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("%s: %d records, want %d; missing %q, too many %q", when, len(got), len(want), first(without(want, got)), first(without(got, want)))
	}
}

func first(names []string) []string { return names[:min(len(names), 5)] }

// without is the multiset a - b; both are sorted.
func without(a, b []string) (rest []string) {
	for _, x := range a {
		if i, ok := slices.BinarySearch(b, x); ok {
			b = slices.Delete(slices.Clone(b), i, i+1)
		} else {
			rest = append(rest, x)
		}
	}
	return rest
}

func discover[T any](t *testing.T, src connector.Source[T], parallelism int) (splits []connector.Split) {
	t.Helper()
	e, err := src.OpenEnumerator(t.Context(), parallelism, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Errorf("close of the enumerator: %v", err)
		}
	}()
	for range limit {
		more, err := e.Next(t.Context())
		splits = append(splits, more...)
		if errors.Is(err, io.EOF) {
			return splits
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("discovery of a bounded source does not end")
	return nil
}

func open[T any](t *testing.T, src connector.Source[T], splits []connector.Split) connector.Reader[T] {
	t.Helper()
	r, err := src.OpenReader(t.Context(), &connector.Task{Job: "job", Operator: "source", Parallelism: 1, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Assign(splits); err != nil {
		t.Fatal(err)
	}
	return r
}

func closed[T any](t *testing.T, r connector.Reader[T]) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("close of the reader: %v", err)
	}
}

// poll reads at most n records; end says that the reader has none left. Polls of max records each.
func (s Source[T]) poll(t *testing.T, r connector.Reader[T], n, max int) (names []string, end bool) {
	t.Helper()
	var out connector.Records[T]
	for range limit {
		out.Reset()
		if out.Max = min(max, n-len(names)); out.Max == 0 {
			return names, false
		}
		err := r.Poll(t.Context(), &out)
		if len(out.Errors) > 0 {
			t.Fatalf("record error: %v", out.Errors[0].Err)
		}
		if out.Len() > out.Max {
			t.Fatalf("Poll delivered %d records, at most %d were wanted", out.Len(), out.Max)
		}
		names = append(names, s.names(out.Vals)...)
		if errors.Is(err, io.EOF) {
			return names, true
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("a bounded source does not end")
	return nil, true
}

// drain reads everything that is left and closes the reader.
func (s Source[T]) drain(t *testing.T, r connector.Reader[T]) []string {
	t.Helper()
	names, _ := s.poll(t, r, limit, 7)
	if left, err := r.Snapshot(1); err != nil || len(left) > 0 {
		t.Fatalf("a finished reader still has %d splits, %v", len(left), err)
	}
	closed(t, r)
	return names
}

func (s Source[T]) bounded(t *testing.T) {
	if !s.Open(t).Bounded() {
		t.Fatal("the suite is for bounded sources")
	}
}

func (s Source[T]) discovery(t *testing.T) {
	src := s.Open(t)
	ids := map[string]bool{}
	for _, sp := range discover(t, src, 3) {
		if sp.ID == "" || ids[sp.ID] {
			t.Errorf("split id %q is empty or occurs twice", sp.ID)
		}
		ids[sp.ID] = true
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := src.OpenEnumerator(t.Context(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range limit { // a done context may be noticed or not, but nothing may block
		if _, err := e.Next(ctx); err != nil {
			return
		}
	}
	t.Error("discovery does not end")
}

// discoveredAgain: two enumerators that are asked for the same parallelism agree, also about the order. A run that begins anew
// has to find what it has found before.
func (s Source[T]) discoveredAgain(t *testing.T) {
	src := s.Open(t)
	for _, parallelism := range []int{1, 3} {
		once, twice := discover(t, src, parallelism), discover(t, src, parallelism)
		same := func(a, b connector.Split) bool {
			return a.ID == b.ID && a.Version == b.Version && bytes.Equal(a.Data, b.Data)
		}
		if !slices.EqualFunc(once, twice, same) {
			t.Errorf("for %d readers there were %d splits, then %d, or others, or in another order", parallelism, len(once), len(twice))
		}
	}
}

func (s Source[T]) complete(t *testing.T) {
	for _, parallelism := range []int{1, 2, 5} {
		src := s.Open(t)
		shares := make([][]connector.Split, parallelism)
		for i, sp := range discover(t, src, parallelism) {
			shares[i%parallelism] = append(shares[i%parallelism], sp)
		}
		var got []string
		for _, share := range shares {
			got = append(got, s.drain(t, open(t, src, share))...)
		}
		s.same(t, got, fmt.Sprintf("parallelism %d", parallelism))
	}
}

func (s Source[T]) repeatable(t *testing.T) {
	src := s.Open(t)
	for _, sp := range discover(t, src, 2) {
		once, twice := s.drain(t, open(t, src, []connector.Split{sp})), s.drain(t, open(t, src, []connector.Split{sp}))
		if !slices.Equal(once, twice) {
			t.Errorf("split %s gave %d records, then %d, or others, or in another order", sp.ID, len(once), len(twice))
		}
	}
}

func (s Source[T]) positions(t *testing.T) {
	src := s.Open(t)
	splits := discover(t, src, 2)
	for n := range min(len(s.Want), 200) {
		r := open(t, src, splits)
		got, _ := s.poll(t, r, n, 3)
		left, err := r.Snapshot(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Committed(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		s.poll(t, r, 2, 2) // read after the snapshot, and lost
		closed(t, r)
		got = append(got, s.drain(t, open(t, src, left))...)
		s.same(t, got, fmt.Sprintf("stopped after %d records", n))
	}
}

// moved stops after every few records and gives each unfinished split to a reader of its own.
func (s Source[T]) moved(t *testing.T) {
	src := s.Open(t)
	splits := discover(t, src, 3)
	var got []string
	for range limit {
		if len(splits) == 0 {
			s.same(t, got, "moved around")
			return
		}
		var next []connector.Split
		for _, sp := range splits {
			r := open(t, src, []connector.Split{sp})
			names, _ := s.poll(t, r, 2, 1)
			got = append(got, names...)
			left, err := r.Snapshot(1)
			if err != nil {
				t.Fatal(err)
			}
			closed(t, r)
			for _, l := range left {
				if l.ID != sp.ID {
					t.Fatalf("split %s came back as %s", sp.ID, l.ID)
				}
			}
			next = append(next, left...)
		}
		slices.Reverse(next)
		splits = next
	}
	t.Fatal("the splits do not end")
}

func (s Source[T]) idle(t *testing.T) {
	r := open(t, s.Open(t), nil)
	defer closed(t, r)
	out := connector.Records[T]{Max: 10}
	if err := r.Poll(t.Context(), &out); !errors.Is(err, io.EOF) || out.Len() > 0 {
		t.Errorf("%d records, error %v; want io.EOF", out.Len(), err)
	}
	if left, err := r.Snapshot(1); err != nil || len(left) > 0 {
		t.Errorf("%d splits, error %v", len(left), err)
	}
	// Splits may come later.
	if err := r.Assign(discover(t, s.Open(t), 1)); err != nil {
		t.Fatal(err)
	}
	got, _ := s.poll(t, r, limit, 100)
	s.same(t, got, "assigned later")
}

func (s Source[T]) described(t *testing.T) {
	src := s.Open(t)
	splits := discover(t, src, 2)
	r := open(t, src, splits)
	defer closed(t, r)
	finished := map[connector.SplitIndex]bool{}
	places := map[string]bool{}
	for range limit {
		out := connector.Records[T]{Max: 5}
		err := r.Poll(t.Context(), &out)
		if len(out.Splits) != out.Len() || len(out.Pos) != out.Len() || len(out.Times) != out.Len() {
			t.Fatalf("%d records with %d splits, %d positions, %d times", out.Len(), len(out.Splits), len(out.Pos), len(out.Times))
		}
		for i, sp := range out.Splits {
			if int(sp) < 0 || int(sp) >= len(splits) || finished[sp] {
				t.Fatalf("a record of split %d, which does not exist or had finished", sp)
			}
			place := r.Describe(sp, out.Pos[i])
			if place == "" || places[place] {
				t.Fatalf("two records are at %q", place)
			}
			places[place] = true
		}
		for _, sp := range out.Done {
			if int(sp) < 0 || int(sp) >= len(splits) || finished[sp] {
				t.Fatalf("split %d finished twice, or does not exist", sp)
			}
			finished[sp] = true
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(finished) != len(splits) {
		t.Errorf("%d of %d splits finished", len(finished), len(splits))
	}
}

func (s Source[T]) interrupted(t *testing.T) {
	src := s.Open(t)
	r := open(t, src, discover(t, src, 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got []string
	for range 3 { // whether it delivers something or not, nothing is lost and it is no error
		out := connector.Records[T]{Max: 2}
		if err := r.Poll(ctx, &out); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("an interrupted Poll failed: %v", err)
		}
		got = append(got, s.names(out.Vals)...)
	}
	got = append(got, s.drain(t, r)...)
	s.same(t, got, "interrupted")
}

func (s Source[T]) foreign(t *testing.T) {
	src := s.Open(t)
	splits := discover(t, src, 1)
	for name, bad := range map[string]connector.Split{
		"version": {ID: splits[0].ID, Version: splits[0].Version + 1000, Data: splits[0].Data},
		"data":    {ID: splits[0].ID, Version: splits[0].Version, Data: []byte("\xff\x00 no split")},
		"no data": {ID: splits[0].ID, Version: splits[0].Version},
	} {
		r, err := src.OpenReader(t.Context(), &connector.Task{Parallelism: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Assign([]connector.Split{bad}); err == nil || !connector.IsFatal(err) {
			t.Errorf("%s: a split of somebody else: %v; want a fatal error", name, err)
		}
		closed(t, r)
	}
}

func (s Source[T]) waiting(t *testing.T) {
	if s.Slow == nil {
		t.Skip("the source has no rate")
	}
	synctest.Test(t, func(t *testing.T) {
		src := s.Slow(t)
		r := open(t, src, discover(t, src, 1))
		begun := time.Now()
		var got []string
		for range limit {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			called := time.Now()
			out := connector.Records[T]{Max: 100}
			err := r.Poll(ctx, &out)
			cancel()
			if waited := time.Since(called); waited > 300*time.Millisecond {
				t.Fatalf("Poll returned after %v, the context was done after 300ms", waited)
			}
			got = append(got, s.names(out.Vals)...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		closed(t, r)
		s.same(t, got, "slowly")
		if took, least := time.Since(begun), time.Duration(len(s.Want)-2)*time.Second; took < least {
			t.Errorf("%d records at one per second took %v", len(s.Want), took)
		}
	})
}

// paused reads all but the first split, and then all of it. A reader that cannot pause says so, or has no such method.
func (s Source[T]) paused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		splits := discover(t, s.Open(t), 3)
		r := open(t, s.Open(t), splits)
		defer closed(t, r)
		p, ok := r.(connector.Pauser)
		if !ok || len(splits) < 2 {
			return
		}
		if !p.Pause([]connector.SplitIndex{0}) {
			return
		}
		names := s.pollUntilQuiet(t, r, func(i connector.SplitIndex) bool { return i != 0 })
		p.Pause(nil)
		names = append(names, s.pollUntilQuiet(t, r, func(connector.SplitIndex) bool { return true })...)
		s.same(t, names, "when a split was paused for a while")
	})
}

// pollUntilQuiet polls until nothing comes for a while, or the end.
func (s Source[T]) pollUntilQuiet(t *testing.T, r connector.Reader[T], may func(connector.SplitIndex) bool) (names []string) {
	t.Helper()
	out := &connector.Records[T]{Max: 7}
	for empty := 0; empty < 100; empty++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out.Reset()
		err := r.Poll(ctx, out)
		quiet := ctx.Err() != nil
		cancel()
		for i, v := range out.Vals {
			if !may(out.Splits[i]) {
				t.Fatalf("a record of split %d, which is paused", out.Splits[i])
			}
			names = append(names, s.Name(v))
			empty = 0
		}
		if errors.Is(err, io.EOF) || quiet {
			return names
		}
		if err != nil {
			t.Fatalf("poll: %v", err)
		}
	}
	return names
}
