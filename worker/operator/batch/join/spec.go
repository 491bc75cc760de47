package join

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/worker/task"
)

// Side is one of the two inputs. The operator's input 0 is Left, input 1 is Right.
type Side int

// The sides of a join. The zero Build is Right.
const (
	Right Side = iota
	Left
)

// Spec is what a join does with records L and R of equal keys.
type Spec[K comparable, L, R, Out any] struct {
	LeftKey  func(L) K
	RightKey func(R) K
	// Match is called for each pair of equal keys. It may emit any number of records.
	Match func(l L, r R, emit func(Out))
	// LeftOnly is called for each record without a partner; nil: it is dropped. RightOnly is the same for the other side.
	LeftOnly  func(l L, emit func(Out))
	RightOnly func(r R, emit func(Out))
	// Build is the side that is kept in memory: the smaller one. It makes no difference to the result.
	Build Side
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
}

// Stages are the inputs of the join, Left and Right.
//
// A pair is emitted with the later one of the two event times, and a record without a partner with its own. The order of
// results is unspecified; it is the same for the same order of arrival and the same memory.
func Stages[K comparable, L, R, Out any](s Spec[K, L, R, Out]) (task.StageOf[L, Out], task.StageOf[R, Out]) {
	if s.Build == Left {
		build, probe := stages(spec[K, L, R, Out]{
			buildKey: s.LeftKey, probeKey: s.RightKey,
			match:     func(r R, l L, emit func(Out)) { s.Match(l, r, emit) },
			buildOnly: s.LeftOnly, probeOnly: s.RightOnly,
			input: 0, registry: s.Registry,
		})
		return build, probe
	}
	build, probe := stages(spec[K, R, L, Out]{
		buildKey: s.RightKey, probeKey: s.LeftKey,
		match: s.Match, buildOnly: s.RightOnly, probeOnly: s.LeftOnly,
		input: 1, registry: s.Registry,
	})
	return probe, build
}

// spec is a Spec by roles.
type spec[K comparable, B, P, Out any] struct {
	buildKey  func(B) K
	probeKey  func(P) K
	match     func(p P, b B, emit func(Out))
	buildOnly func(b B, emit func(Out))
	probeOnly func(p P, emit func(Out))
	input     int // of the build side
	registry  *codec.Registry
}

// stages are the build and the probe input. The operator comes from whichever is built first.
func stages[K comparable, B, P, Out any](s spec[K, B, P, Out]) (task.StageOf[B, Out], task.StageOf[P, Out]) {
	shared := func(rt *task.Runtime, out task.Push[Out]) (*operator[K, B, P, Out], error) {
		return task.Shared(rt, func() (*operator[K, B, P, Out], error) { return open(rt, s, out) })
	}
	build := func(rt *task.Runtime, out task.Push[Out]) (task.Push[B], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return o.pushBuild, o, nil
	}
	probe := func(rt *task.Runtime, out task.Push[Out]) (task.Push[P], task.Operator, error) {
		o, err := shared(rt, out)
		if err != nil {
			return nil, nil, err
		}
		return o.pushProbe, o, nil
	}
	return build, probe
}
