package generate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/pace"
	"github.com/sluiceio/sluice/flow/element"
)

// Option of a generator.
type Option func(*options)

type options struct{ perSecond, splits int }

// Rate limits the whole source to n records per second, shared evenly by its splits; 0, the default, is full speed.
func Rate(n int) Option { return func(o *options) { o.perSecond = max(0, n) } }

// Splits divides the input into n splits, which readers are given as they are done with others; 0, the default, is one per
// reader.
func Splits(n int) Option { return func(o *options) { o.splits = max(0, n) } }

// Records is the bounded source of f(0) … f(n-1). f is called by several subtasks at once and must be pure.
func Records[T any](n int64, f func(i int64) (T, element.Time), opts ...Option) connector.Source[T] {
	return newSource(n, f, opts)
}

// Endless is the unbounded source of f(0), f(1), …
func Endless[T any](f func(i int64) (T, element.Time), opts ...Option) connector.Source[T] {
	return newSource(-1, f, opts)
}

func newSource[T any](n int64, f func(int64) (T, element.Time), opts []Option) *source[T] {
	s := &source[T]{n: n, f: f}
	for _, o := range opts {
		o(&s.options)
	}
	return s
}

type source[T any] struct {
	n int64 // -1: endless
	f func(i int64) (T, element.Time)
	options
}

// block is how many consecutive indices go to one split before the next split's turn.
const block = 256

func (s *source[T]) Bounded() bool { return s.n >= 0 }

// String is the detail that a plan shows.
func (s *source[T]) String() string {
	if s.n < 0 {
		return "endless"
	}
	return strconv.FormatInt(s.n, 10) + " records"
}

func (s *source[T]) OpenEnumerator(_ context.Context, parallelism int, _ []byte) (connector.Enumerator, error) {
	return &enumerator{count: cmp.Or(s.splits, max(1, parallelism)), bounded: s.n >= 0}, nil
}

func (s *source[T]) OpenReader(context.Context, *connector.Task) (connector.Reader[T], error) {
	return &reader[T]{src: s}, nil
}

type enumerator struct {
	count   int
	bounded bool
	done    bool
}

func (e *enumerator) Next(ctx context.Context) ([]connector.Split, error) {
	if e.done {
		if e.bounded {
			return nil, io.EOF
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	e.done = true
	var splits []connector.Split
	for i := range e.count {
		splits = append(splits, lane{index: int64(i), of: int64(e.count)}.split())
	}
	if e.bounded {
		return splits, io.EOF
	}
	return splits, nil
}

func (e *enumerator) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (e *enumerator) Close() error                                  { return nil }

// lane is the share of one split: blocks index, index+of, index+2·of, …; next counts its own records.
type lane struct {
	index, of, next int64
	done            bool
	paused          bool
}

const splitVersion = 1

func (l lane) split() connector.Split {
	var data []byte
	for _, v := range []int64{l.index, l.of, l.next} {
		data = binary.BigEndian.AppendUint64(data, uint64(v))
	}
	return connector.Split{ID: strconv.FormatInt(l.index, 10) + "/" + strconv.FormatInt(l.of, 10), Version: splitVersion, Data: data}
}

func decode(s connector.Split) (l lane, err error) {
	if s.Version != splitVersion || len(s.Data) != 24 {
		return l, connector.Fatal(fmt.Errorf("generator split %q: version %d, %d bytes", s.ID, s.Version, len(s.Data)))
	}
	for i, v := range []*int64{&l.index, &l.of, &l.next} {
		*v = int64(binary.BigEndian.Uint64(s.Data[8*i:]))
	}
	if l.of < 1 || l.index < 0 || l.index >= l.of || l.next < 0 {
		return l, connector.Fatal(fmt.Errorf("generator split %q: impossible lane %+v", s.ID, l))
	}
	return l, nil
}

// at is the index of the lane's record number k.
func (l lane) at(k int64) int64 { return (k/block*l.of+l.index)*block + k%block }

type reader[T any] struct {
	src   *source[T]
	lanes []lane
	turn  int // the lane that is served next
	pace  pace.Pace
}

func (r *reader[T]) Assign(splits []connector.Split) error {
	for _, s := range splits {
		l, err := decode(s)
		if err != nil {
			return err
		}
		r.lanes = append(r.lanes, l)
	}
	return nil
}

// Poll serves the lanes block by block in turn, so that their event times stay close together.
func (r *reader[T]) Poll(ctx context.Context, out *connector.Records[T]) error {
	live, held := 0, 0
	for range r.lanes {
		l := &r.lanes[r.turn]
		if l.paused && !l.done {
			held++
		}
		if l.done || l.paused {
			r.turn = (r.turn + 1) % len(r.lanes)
			continue
		}
		live++
		rate := r.rate()
		room, ok := r.pace.Take(ctx, rate, out.Max-out.Len())
		if !ok {
			return nil
		}
		r.pace.GiveBack(rate, room-r.serve(room, out))
		if out.Full() || r.src.perSecond > 0 {
			return nil
		}
	}
	switch {
	case live > 0:
	case held == 0:
		return io.EOF
	default:
		<-ctx.Done()
	}
	return nil
}

// Pause implements connector.Pauser.
func (r *reader[T]) Pause(splits []connector.SplitIndex) bool {
	for i := range r.lanes {
		r.lanes[i].paused = slices.Contains(splits, connector.SplitIndex(i))
	}
	return true
}

// serve delivers at most room records of the lane whose turn it is, up to the end of its block, and returns their number.
func (r *reader[T]) serve(room int, out *connector.Records[T]) (n int) {
	l := &r.lanes[r.turn]
	split := connector.SplitIndex(r.turn)
	for n < room {
		i := l.at(l.next)
		if r.src.n >= 0 && i >= r.src.n {
			l.done = true
			out.Finish(split)
			break
		}
		v, at := r.src.f(i)
		out.Add(split, v, at, i)
		n++
		l.next++
		if l.next%block == 0 {
			break
		}
	}
	if l.done || l.next%block == 0 {
		r.turn = (r.turn + 1) % len(r.lanes)
	}
	return n
}

// rate is the share of this reader, its lanes of all lanes, in records per second; 0: full speed.
func (r *reader[T]) rate() float64 {
	return float64(r.src.perSecond) * float64(len(r.lanes)) / float64(r.lanes[0].of)
}

// Describe names the index of the record.
func (r *reader[T]) Describe(_ connector.SplitIndex, pos int64) string {
	return "record " + strconv.FormatInt(pos, 10)
}

func (r *reader[T]) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	var splits []connector.Split
	for _, l := range r.lanes {
		if !l.done {
			splits = append(splits, l.split())
		}
	}
	return splits, nil
}

func (r *reader[T]) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *reader[T]) Close() error                                          { return nil }
