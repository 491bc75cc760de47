package concat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/element"
)

// numbers is a source of the numbers from first up to, without, end, in as many splits as asked for. Its enumerator finds one
// split at a time.
type numbers struct {
	first, end, splits int64
	endless            bool
}

func (n numbers) Bounded() bool  { return !n.endless }
func (n numbers) String() string { return fmt.Sprintf("%d…%d", n.first, n.end) }

func (n numbers) OpenEnumerator(_ context.Context, _ int, restored []byte) (connector.Enumerator, error) {
	e := &numbersEnumerator{n: n}
	if restored != nil {
		e.next = int64(binary.LittleEndian.Uint64(restored))
	}
	return e, nil
}

func (n numbers) OpenReader(context.Context, *connector.Task) (connector.Reader[int64], error) {
	return &numbersReader{}, nil
}

type numbersEnumerator struct {
	n      numbers
	next   int64
	closed bool
}

func (e *numbersEnumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.closed {
		return nil, errors.New("closed")
	}
	if e.next == e.n.splits {
		if e.n.endless {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, io.EOF
	}
	size := (e.n.end - e.n.first) / e.n.splits
	lo, hi := e.n.first+e.next*size, e.n.first+(e.next+1)*size
	if e.next++; e.next == e.n.splits {
		hi = e.n.end
		if !e.n.endless {
			return []connector.Split{numbersSplit(lo, hi)}, io.EOF // with the last one
		}
	}
	return []connector.Split{numbersSplit(lo, hi)}, nil
}

func numbersSplit(next, end int64) connector.Split {
	data := binary.LittleEndian.AppendUint64(nil, uint64(next))
	return connector.Split{ID: fmt.Sprint("to", end), Version: 7, Data: binary.LittleEndian.AppendUint64(data, uint64(end))}
}

func (e *numbersEnumerator) Snapshot(element.CheckpointID) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, uint64(e.next)), nil
}

func (e *numbersEnumerator) Close() error {
	e.closed = true
	return nil
}

// numbersReader reads its splits in turn, and does not name the ones that it has finished.
type numbersReader struct {
	next, end []int64
	paused    []connector.SplitIndex
	turn      int
	committed int
	closed    bool
}

func (r *numbersReader) Assign(splits []connector.Split) error {
	for _, s := range splits {
		if s.Version != 7 || len(s.Data) != 16 {
			return fmt.Errorf("split %q", s.ID)
		}
		r.next = append(r.next, int64(binary.LittleEndian.Uint64(s.Data)))
		r.end = append(r.end, int64(binary.LittleEndian.Uint64(s.Data[8:])))
	}
	return nil
}

func (r *numbersReader) Poll(ctx context.Context, out *connector.Records[int64]) error {
	for {
		left := false
		for range r.next {
			i := r.turn % len(r.next)
			r.turn++
			if r.next[i] == r.end[i] {
				continue
			}
			if slices.Contains(r.paused, connector.SplitIndex(i)) {
				return nil
			}
			left = true
			if out.Full() || ctx.Err() != nil {
				return nil
			}
			if v := r.next[i]; v%1000 == 999 {
				out.AddError(connector.SplitIndex(i), nil, v, errors.New("cannot be read"))
			} else {
				out.Add(connector.SplitIndex(i), v, element.Time(v), v)
			}
			r.next[i]++
			if v := r.next[i]; v%5 == 0 {
				out.Mark(connector.SplitIndex(i), element.Time(v-1))
			}
		}
		if !left {
			return io.EOF
		}
	}
}

func (r *numbersReader) Pause(splits []connector.SplitIndex) bool {
	r.paused = splits
	return true
}

func (r *numbersReader) Describe(s connector.SplitIndex, pos int64) string {
	return fmt.Sprintf("number %d of split %d", pos, s)
}

func (r *numbersReader) Snapshot(element.CheckpointID) (all []connector.Split, err error) {
	for i := range r.next {
		if r.next[i] < r.end[i] {
			all = append(all, numbersSplit(r.next[i], r.end[i]))
		}
	}
	return all, nil
}

func (r *numbersReader) Committed(context.Context, element.CheckpointID) error {
	r.committed++
	return nil
}

func (r *numbersReader) Close() error {
	r.closed = true
	return nil
}

func upTo(n int64) (all []int64) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestConformance(t *testing.T) {
	for name, src := range map[string]connector.Source[int64]{
		"two":          Sources(numbers{0, 40, 3, false}, numbers{40, 100, 2, false}),
		"three, right": Sources(numbers{0, 40, 3, false}, Sources(numbers{40, 60, 1, false}, numbers{60, 100, 4, false})),
		"three, left":  Sources(Sources(numbers{0, 40, 3, false}, numbers{40, 60, 1, false}), numbers{60, 100, 4, false}),
	} {
		t.Run(name, func(t *testing.T) {
			suite.TestSource(t, suite.Source[int64]{
				Open: func(testing.TB) connector.Source[int64] { return src },
				Want: upTo(100), Name: func(v int64) string { return fmt.Sprintf("%03d", v) },
			})
		})
	}
}

// found are the splits of a source with their phases, as the engine asks for them.
func found(t *testing.T, src connector.Source[int64], most int) (splits []connector.Split, phases []int32) {
	t.Helper()
	e, err := src.OpenEnumerator(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for len(splits) < most {
		more, err := e.Next(t.Context())
		for _, s := range more {
			splits, phases = append(splits, s), append(phases, e.(connector.PhasedEnumerator).Phase(s))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return splits, phases
}

func TestEverySplitOfHistoryHasALowerPhaseThanTheLiveOnes(t *testing.T) {
	a, b, c := numbers{0, 40, 3, false}, numbers{40, 60, 1, false}, numbers{60, 100, 2, true}
	for name, src := range map[string]connector.Source[int64]{
		"to the right": Sources(a, Sources(b, c)), "to the left": Sources(Sources(a, b), c),
	} {
		_, phases := found(t, src, 6)
		if want := []int32{0, 0, 0, 1, 2, 2}; !slices.Equal(phases, want) {
			t.Errorf("%s: phases %v, want %v", name, phases, want)
		}
		if n := src.(connector.PhasedSource).Phases(); n != 3 || src.Bounded() {
			t.Errorf("%s: %d phases, bounded %t", name, n, src.Bounded())
		}
		if err := src.(connector.Checker).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := fmt.Sprint(src); text != "0…40, then 40…60, then 60…100" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAnEnumeratorGoesOnWhereItWas(t *testing.T) {
	src := Sources(numbers{0, 40, 2, false}, numbers{40, 100, 3, false})
	all, _ := found(t, src, 5)
	for n := range len(all) {
		e, err := src.OpenEnumerator(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := e.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		state, err := e.Snapshot(1)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = src.OpenEnumerator(t.Context(), 1, state); err != nil {
			t.Fatal(err)
		}
		rest := slices.Clone(all[:n])
		for err == nil {
			var more []connector.Split
			more, err = e.Next(t.Context())
			rest = append(rest, more...)
		}
		if !errors.Is(err, io.EOF) || !slices.EqualFunc(rest, all, func(a, b connector.Split) bool { return a.ID == b.ID }) {
			t.Errorf("continued after %d of %d splits: %v, %v", n, len(all), rest, err)
		}
	}
	if _, err := src.OpenEnumerator(t.Context(), 1, []byte{9, 9, 9}); err == nil {
		t.Error("the state of something else is taken")
	}
}

func TestWhatMakesNoSenseIsFoundAtPlanTime(t *testing.T) {
	ok, endless := numbers{0, 10, 1, false}, numbers{0, 10, 1, true}
	for _, c := range []struct {
		src  connector.Source[int64]
		says string
	}{
		{Sources[int64](endless, ok), "never ends"},
		{Sources[int64](nil, ok), "without a history source"},
		{Sources[int64](ok, nil), "without a live source"},
		{Sources(ok, Sources[int64](endless, ok)), "live: "},
	} {
		if err := c.src.(connector.Checker).Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

func TestErrorsNoticesAndTheEndReachTheRightSource(t *testing.T) {
	src := Sources(numbers{990, 1010, 1, false}, numbers{1990, 2010, 1, false})
	splits, _ := found(t, src, 2)
	in, err := src.OpenReader(t.Context(), &connector.Task{})
	if err != nil {
		t.Fatal(err)
	}
	r := in.(*reader[int64])
	if err := r.Assign(splits[:1]); err != nil {
		t.Fatal(err)
	}
	if r.of[second] != nil {
		t.Error("the live reader is open before its first split")
	}
	out := &connector.Records[int64]{Max: 100}
	if err := r.Poll(t.Context(), out); !errors.Is(err, io.EOF) || len(out.Vals) != 19 || len(out.Errors) != 1 || out.Errors[0].Split != 0 {
		t.Errorf("history: %d records, errors %v, %v", len(out.Vals), out.Errors, err)
	}
	if err := r.Assign(splits[1:]); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := r.Poll(t.Context(), out); !errors.Is(err, io.EOF) || out.Splits[0] != 1 || len(out.Errors) != 1 || out.Errors[0].Split != 1 {
		t.Errorf("live: %v, errors %v, %v", out.Splits, out.Errors, err)
	}
	if text := r.Describe(1, 1995); text != "number 1995 of split 0" {
		t.Error(text)
	}
	if text := r.Describe(7, 1); text != "position 1 of split 7" {
		t.Error(text)
	}
	if err := errors.Join(r.Committed(t.Context(), 1), r.Close()); err != nil {
		t.Fatal(err)
	}
	for _, in := range r.of {
		if n := in.(*numbersReader); n.committed != 1 || !n.closed {
			t.Error("a reader was not told")
		}
	}
	if err := r.Assign([]connector.Split{{ID: "live/x", Version: 1, Data: []byte{0, 0, 0}}}); !connector.IsFatal(err) {
		t.Errorf("a foreign split: %v", err)
	}
}

func TestPromisesAndPausesAreOfTheSplitsThatAreMeant(t *testing.T) {
	src := Sources(numbers{0, 10, 1, false}, numbers{100, 110, 1, false})
	splits, _ := found(t, src, 2)
	in, err := src.OpenReader(t.Context(), &connector.Task{})
	if err != nil {
		t.Fatal(err)
	}
	r := in.(*reader[int64])
	if err := r.Assign(splits); err != nil {
		t.Fatal(err)
	}
	out := &connector.Records[int64]{Max: 100}
	if err := r.Poll(t.Context(), out); err != nil || !slices.Equal(out.Marks, []connector.Mark{{Split: 0, At: 4}, {Split: 0, At: 9}}) {
		t.Errorf("history promises %v, %v", out.Marks, err)
	}
	if !r.Pause([]connector.SplitIndex{1}) {
		t.Error("it cannot pause although both can")
	}
	out.Reset()
	if err := r.Poll(t.Context(), out); err != nil || len(out.Vals) > 0 {
		t.Errorf("%v although the split is paused, %v", out.Vals, err)
	}
	r.Pause(nil)
	if err := r.Poll(t.Context(), out); !errors.Is(err, io.EOF) || !slices.Equal(out.Marks, []connector.Mark{{Split: 1, At: 104}, {Split: 1, At: 109}}) {
		t.Errorf("live promises %v, %v", out.Marks, err)
	}
}

func FuzzUnwrapTrustsNothing(f *testing.F) {
	s := wrap(second, numbersSplit(1, 2))
	f.Add(s.ID, s.Version, s.Data)
	f.Add("history/x", uint16(1), []byte{})
	f.Fuzz(func(t *testing.T, id string, v uint16, data []byte) {
		part, inner, err := unwrap(connector.Split{ID: id, Version: v, Data: data})
		if err != nil {
			return
		}
		again := wrap(part, inner)
		if again.ID != id || again.Version != v || !slices.Equal(again.Data, data) {
			t.Fatalf("%+v became %+v", data, again)
		}
	})
}
