package column

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// Options of a table.
type Options struct {
	// Operator is named in errors; Table tells its tables apart in chunks.
	Operator, Table string
	// MaxParallelism is the number of key groups of the job.
	MaxParallelism int
	// Checkpoints: changes are tracked, for Freeze and Rewind. Without, state lives and dies with the attempt.
	Checkpoints bool
	// Registry holds the codecs of the pipeline; nil: none.
	Registry *codec.Registry
	// Budget and Overflow say how much memory there is and where to go with what exceeds it. Without both, everything
	// stays in memory.
	Budget   *budget.Budget
	Overflow *overflow.Store
	// Now is the clock of states with a time to live; nil: time.Now.
	Now func() time.Time
	// Scope says to whom the entries of the table belong; 0: chunk.Keyed.
	Scope chunk.Scope

	// Space is the schema of namespaces; empty: the table has none.
	Space string
	// Small tables are many, each with few keys. They are parts of a Share of the budget, if there is one.
	Small bool
	Share *budget.Share
	// Silent: snapshots are empty, because another subtask writes the same. Nothing leaves memory.
	Silent bool
}

// Option is what a state may be declared with.
type Option struct {
	// TTL is how long a value lives after its stamp; 0: for ever. The values must have a method Stamp() int64, in
	// microseconds since the Unix epoch. What has expired is removed in the background; readers must look at the stamp.
	TTL time.Duration
	// Kind is what chunks call the state; 0: value or map.
	Kind chunk.Kind
	// Decoder replaces the decoding of values of a chunk, if it returns one that is not nil. own is the schema of today.
	Decoder func(own string, st chunk.State) (Decode, error)
}

// Decode reads a value from the front of src to v, and returns what follows.
type Decode func(src []byte, v slab.Place) (rest []byte, err error)

// DecodeOf is a Decode for values of a type that is known.
func DecodeOf[V any](f func(src []byte, v *V) ([]byte, error)) Decode {
	return func(src []byte, v slab.Place) ([]byte, error) { return f(src, (*V)(v)) }
}

// stamper is a value with a time to live.
type stamper interface{ Stamp() int64 }

// options are those that a state of values of type v is declared with.
func options(v reflect.Type, opts []Option) (o Option, err error) {
	for _, x := range opts {
		o = x
	}
	if o.TTL < 0 {
		return o, fmt.Errorf("a time to live of %v", o.TTL)
	}
	if o.TTL > 0 && o.TTL < time.Microsecond {
		return o, fmt.Errorf("a time to live of %v: the shortest is a microsecond", o.TTL)
	}
	o.TTL = o.TTL.Truncate(time.Microsecond)
	if o.TTL > 0 && !reflect.PointerTo(v).Implements(reflect.TypeFor[stamper]()) {
		return o, errors.New("a time to live needs values with stamps")
	}
	return o, nil
}

func (o *Option) kind(k chunk.Kind) chunk.Kind {
	if o.Kind != 0 {
		return o.Kind
	}
	return k
}

// decoding is the decoder of a state's values in a chunk, which are of type v and have the codec c.
func decoding(o *Option, v reflect.Type, c *codec.Plan, r *codec.Registry, st chunk.State) (Decode, error) {
	if o.Decoder != nil {
		if decode, err := o.Decoder(c.Schema(), st); err != nil || decode != nil {
			return decode, err
		}
	}
	return decoder(v, c, r, st.Value)
}

// decoder reads values of the schema with which they were stored.
func decoder(v reflect.Type, c *codec.Plan, r *codec.Registry, stored string) (Decode, error) {
	if stored == c.Schema() {
		return c.Decode, nil
	}
	m, err := codec.MigratingPlan(v, stored, r)
	if err != nil {
		return nil, err
	}
	return m.Decode, nil
}

// decodeAll decodes a value that takes all of b.
func decodeAll(decode Decode, b []byte, v slab.Place) error {
	rest, err := decode(b, v)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: %d bytes behind the value", codec.ErrCorrupt, len(rest))
	}
	return err
}

// Clock is the time by which values expire, read now and then.
type Clock struct {
	now func() time.Time
	// Us is in microseconds since the Unix epoch.
	Us int64
}

func (c *Clock) read() { c.Us = c.now().UnixMicro() }
