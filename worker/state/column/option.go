package column

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/budget"
	"github.com/sluiceio/sluice/worker/state/overflow"
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
	// Decoder replaces the decoding of values of a chunk, if it returns one: a func([]byte, *V) ([]byte, error). own is
	// the schema of today.
	Decoder func(own string, st chunk.State) (decode any, err error)
}

// stamper is a value with a time to live.
type stamper interface{ Stamp() int64 }

func options[V any](opts []Option) (o Option, err error) {
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
	if _, ok := any(new(V)).(stamper); o.TTL > 0 && !ok {
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

// decoding is the decoder of a state's values in a chunk.
func decoding[V any](o *Option, c *codec.Codec[V], r *codec.Registry, st chunk.State) (func([]byte, *V) ([]byte, error), error) {
	if o.Decoder != nil {
		d, err := o.Decoder(c.Schema(), st)
		if err != nil {
			return nil, err
		}
		if decode, ok := d.(func([]byte, *V) ([]byte, error)); ok {
			return decode, nil
		}
	}
	return decoder(c, r, st.Value)
}

// decoder reads values of the schema with which they were stored.
func decoder[V any](c *codec.Codec[V], r *codec.Registry, stored string) (func([]byte, *V) ([]byte, error), error) {
	if stored == c.Schema() {
		return c.Decode, nil
	}
	m, err := codec.Migrating[V](stored, r)
	if err != nil {
		return nil, err
	}
	return m.Decode, nil
}

// decodeAll decodes a value that takes all of b.
func decodeAll[V any](decode func([]byte, *V) ([]byte, error), b []byte, v *V) error {
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
