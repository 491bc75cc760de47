package process

import (
	"fmt"
	"reflect"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/task"
)

// Options are what a processor's stage takes besides its code.
type Options struct {
	OnError task.ErrorPolicy
	// Sides are the side outputs that somebody reads.
	Sides []Side
	// Registry has the codecs of the pipeline, for keyed state.
	Registry *codec.Registry
	// Unread gets what is emitted to side outputs that nobody reads, in tests; nil: it is dropped.
	Unread func(side string, v any, at element.Time)
}

// policy is OnError with the codecs of the pipeline.
func (o Options) policy() task.ErrorPolicy {
	p := o.OnError
	p.Registry = o.Registry
	return p
}

// Side is a side output of one type, erased.
type Side interface {
	name() string
	open(rt *task.Runtime) (any, error)
}

// SideOf is a side output of S.
type SideOf[S any] string

func (s SideOf[S]) name() string                       { return string(s) }
func (s SideOf[S]) open(rt *task.Runtime) (any, error) { return task.SideOutput[S](rt, string(s)) }

// sides are the side outputs of one subtask. There are few: a search beats a map.
type sides []openSide

type openSide struct {
	name string
	push any // task.Push of the type of the side output
}

func (o Options) open(rt *task.Runtime) (sides, error) {
	var all sides
	for _, s := range o.Sides {
		push, err := s.open(rt)
		if err != nil {
			return nil, err
		}
		all = append(all, openSide{s.name(), push})
	}
	return all, nil
}

// side emits to the side output of that name; without a reader it is false. A reader of another type gets nothing that it
// waits for, which is a fault of the job.
func side[S any](rt *task.Runtime, all sides, name string, v S) bool {
	for i := range all {
		if all[i].name != name {
			continue
		}
		if push, ok := all[i].push.(task.Push[S]); ok {
			push(v)
			return true
		}
		rt.Fail(connector.Fatal(fmt.Errorf("side output %q: the operator emits %v, its reader takes %v",
			name, reflect.TypeFor[S](), reflect.TypeOf(all[i].push).In(0))))
		return true
	}
	return false
}

// emitAt emits with another time than that of the record in flight, which is put back.
func emitAt[T any](rt *task.Runtime, out task.Push[T], v T, t element.Time) {
	at := rt.At
	rt.At = t
	out(v)
	rt.At = at
}
