package handle

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state"
)

// Refresh says what makes a value young again.
type Refresh uint8

const (
	// OnWrite: writing it.
	OnWrite Refresh = iota
	// OnRead: writing or reading it. A read is a change then, which the next snapshot writes. Not for lists, whose
	// elements would all change.
	OnRead
)

// Config of the life of values. The zero Config is eternal life.
type Config struct {
	// After is how long a value lives after its last refresh; 0: for ever.
	After   time.Duration
	Refresh Refresh
}

// ErrListRefresh is the declaration of a list that would refresh on reads.
var ErrListRefresh = errors.New("the elements of a list live from their writing: a refresh on reads would rewrite the list")

// Stamped is a value as it is stored.
type Stamped[V any] struct {
	// At is when the value was refreshed, in microseconds since the Unix epoch.
	At int64
	V  V
}

// Stamp is At.
func (s *Stamped[V]) Stamp() int64 { return s.At }

// life is the time by which the values of a state live.
type life struct {
	now    func() int64 // microseconds
	after  int64
	onRead bool
}

func newLife(c Config, now func() int64) life {
	return life{now: now, after: c.After.Microseconds(), onRead: c.Refresh == OnRead}
}

func (l *life) over(at int64) bool { return l.now()-at >= l.after }

// plain are the options of a state without a time to live, which may have had one.
func plain[V any](r *codec.Registry) state.Option {
	return state.Option{Decoder: func(_ string, st chunk.State) (state.Decode, error) {
		if st.TTL == 0 {
			return nil, nil
		}
		m, err := codec.Migrating[Stamped[V]](st.Value, r)
		if err != nil {
			return nil, fmt.Errorf("stored with a time to live: %w", err)
		}
		return state.DecodeOf(func(b []byte, v *V) ([]byte, error) {
			var s Stamped[V]
			rest, err := m.Decode(b, &s)
			*v = s.V
			return rest, err
		}), nil
	}}
}

// timed are the options of a state with a time to live, which may have had none.
func timed[V any](c Config, r *codec.Registry, now func() int64) state.Option {
	return state.Option{TTL: c.After, Decoder: func(_ string, st chunk.State) (state.Decode, error) {
		if st.TTL > 0 {
			return nil, nil
		}
		m, err := codec.Migrating[V](st.Value, r)
		if err != nil {
			return nil, fmt.Errorf("stored without a time to live: %w", err)
		}
		return state.DecodeOf(func(b []byte, s *Stamped[V]) ([]byte, error) {
			s.At = now()
			return m.Decode(b, &s.V)
		}), nil
	}}
}

// Value is one value per key.
type Value[V any] struct {
	life
	plain *state.Value[V]
	timed *state.Value[Stamped[V]] // nil: without a time to live
}

// ValueOf declares a value state.
func ValueOf[V any, K comparable](d *state.Directory[K], name string, c Config) (s *Value[V], err error) {
	s = &Value[V]{life: newLife(c, d.Now)}
	if c.After == 0 {
		s.plain, err = state.ValueOf[V](d, name, plain[V](d.Registry()))
	} else {
		s.timed, err = state.ValueOf[Stamped[V]](d, name, timed[V](c, d.Registry(), d.Now))
	}
	return s, err
}

// alive is the value in place if there is one that lives; a read refreshes it.
func (s *Value[V]) alive() *Stamped[V] {
	p := s.timed.Look()
	switch {
	case p == nil:
		return nil
	case s.over(p.At):
		s.timed.Clear()
		return nil
	case s.onRead && p.At != s.now():
		p = s.timed.Ref()
		p.At = s.now()
		return p
	}
	return s.timed.Peek()
}

// Get is the value, or the zero value if there is none.
func (s *Value[V]) Get() V {
	v, _ := s.Load()
	return v
}

// Load is the value and whether there is one.
func (s *Value[V]) Load() (v V, ok bool) {
	if s.timed == nil {
		return s.plain.Load()
	}
	if p := s.alive(); p != nil {
		return p.V, true
	}
	return v, false
}

// Exists reports whether there is a value. It is no read that refreshes.
func (s *Value[V]) Exists() bool {
	if s.timed == nil {
		return s.plain.Exists()
	}
	p := s.timed.Look()
	return p != nil && !s.over(p.At)
}

// Ref is the value in place, the zero value if there was none; it counts as a write. The pointer is valid until the
// callback returns.
func (s *Value[V]) Ref() *V {
	if s.timed == nil {
		return s.plain.Ref()
	}
	p := s.timed.Ref()
	if s.over(p.At) { // also if it is new
		*p = Stamped[V]{}
	}
	p.At = s.now()
	return &p.V
}

// Set replaces the value.
func (s *Value[V]) Set(v V) { *s.Ref() = v }

// Clear removes the value.
func (s *Value[V]) Clear() {
	if s.timed == nil {
		s.plain.Clear()
	} else {
		s.timed.Clear()
	}
}
