package task

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// picky writes itself and does not read what it has written.
type picky struct{ N uint32 }

var errPicky = errors.New("no 77, please")

func (p picky) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(b, p.N), nil
}

func (p *picky) UnmarshalBinary(b []byte) error {
	switch p.N = binary.BigEndian.Uint32(b); p.N {
	case 77:
		return errPicky
	case 88:
		panic("88 is worse")
	}
	return nil
}

// pickyJob sends n, a few times, over an edge as a picky record.
func pickyJob(t *testing.T, n uint32, stored bool) *job {
	j := newJob(t)
	src := j.source("src", 2, NewSource(ints(10), SourceOptions[int]{}))
	src = j.then(src, "pick", mapped(func(int) picky { return picky{n} }))
	by := jobpb.Partitioner_PARTITIONER_REBALANCE
	j.join("out", 2, end{from: src, by: by, x: NewExchange(mustCodec[picky](t)), st: NewSink(&collected[picky]{}), stored: stored})
	return j
}

// To run the producer again, or to dial once more, would bring the same bytes for ever.
func TestACodecThatDoesNotReadWhatItWritesIsTheUsersFault(t *testing.T) {
	check := func(t *testing.T, f *jobpb.Failure) {
		t.Helper()
		expect(t, f, fault.CodeUser, "out", "")
		if f.Kind != jobpb.FailureKind_FAILURE_USER || len(f.Lost) > 0 || !strings.Contains(f.Message, errPicky.Error()) || !strings.Contains(f.Message, "producer") {
			t.Errorf("failure %v", f)
		}
	}
	t.Run("Stored", func(t *testing.T) { check(t, failedByUser(t, pickyJob(t, 77, true))) })
	t.Run("Live", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := startPair(t, pickyJob(t, 77, false))
			p.deploy(t, 1, 1)
			for _, u := range append(p[0].await(2), p[1].await(2)...) {
				if f := u.Failure; f != nil && f.Kind != jobpb.FailureKind_FAILURE_LOSS { // the others lose their channels
					check(t, f)
					return
				}
			}
			t.Error("nobody has failed by itself")
		})
	})
}

func TestACodecThatPanicsIsBlamedOnTheOperatorThatReads(t *testing.T) {
	expect(t, failedByUser(t, pickyJob(t, 88, true)), fault.CodePanic, "out", "")
}

// generic is an operator as most are: its push is a method of a generic type.
type generic[T any] struct {
	Base
	f   func(T) T
	out Push[T]
}

func (g *generic[T]) push(v T) { g.out(g.apply(v)) }

func (g *generic[T]) apply(v T) T { return g.f(v) }

func method[T any](f func(T) T) Stage {
	return StageOf[T, T](func(_ *Runtime, out Push[T]) (Push[T], Operator, error) {
		g := &generic[T]{f: f, out: out}
		return g.push, g, nil
	})
}

func TestAPanicInAMethodOfAGenericOperatorNamesTheOperator(t *testing.T) {
	for _, culprit := range []string{"first", "second", "third", "fourth"} {
		j := newJob(t)
		at := j.source("src", 1, NewSource(ints(100), SourceOptions[int]{}))
		for _, id := range []string{"first", "second", "third", "fourth"} {
			f := same
			if id == culprit {
				f = boomAt(42)
			}
			if id == "third" {
				at = j.then(at, id, mapped(f))
			} else {
				at = j.then(at, id, method(f))
			}
		}
		j.then(at, "out", NewSink(&collected[int]{}))
		expect(t, failed(t, j), fault.CodePanic, culprit, "row 42 of split 0")
	}
}
