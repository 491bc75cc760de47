package column

import (
	"reflect"

	"github.com/sluiceio/sluice/snapshot/chunk"
	"github.com/sluiceio/sluice/worker/state/epoch"
	"github.com/sluiceio/sluice/worker/state/slab"
)

// cell is one value with its history: word is the epoch of its last change, shifted left, and flags. The value lies
// behind it, at a distance that the column knows. A cell without a value holds the zero value.
type cell struct{ word uint32 }

// valueCell is the cell of a value state, with its value.
type valueCell[V any] struct {
	cell
	v V
}

const (
	present    = epoch.Present
	backed     = epoch.Backed
	epochShift = epoch.WordShift
)

// column is a state of an operator, as its table sees it.
type column interface {
	epoch.Sweeper
	describe() chunk.State
	// field is the type of its part of a row, place tells where that lies.
	field() reflect.Type
	place(offset uintptr)

	// freeze, drop, merge and rewind follow the epochs.
	freeze()
	drop(n int)
	merge(i int)
	rewind()

	// weigh is the bytes that the values in the row refer to.
	weigh(row uint32) int
	// has reports whether the row has this state, dirty whether a segment may bring it back, or take it away.
	has(row uint32) bool
	dirty(row uint32) bool
	// idle reports whether the row neither has this state nor can get it back.
	idle(row uint32) bool
	// reader compiles the decoding of entries with the schema that a chunk has for this state.
	reader(s chunk.State) (func(row uint32, e *chunk.Entry) error, error)

	// pack writes the column's part of a row that leaves memory, and takes its history out of the segments; unpack is
	// the reverse, for a row that is new.
	pack(row uint32, d *epoch.Departure) error
	unpack(row uint32, a *epoch.Arrival) error
	// shed moves units of a row out of memory that are not part of the row, up to limit, and reports whether none is left.
	shed(row uint32, limit int) (done bool, err error)

	// expire removes units that have expired, of those that begin at *at, looking at limit of them.
	expire(at *uint32, limit int)
	// expireRow removes those of one row that are in memory.
	expireRow(row uint32)
	bytes() int
}

// unitColumn is a column whose units are not rows.
type unitColumn interface {
	column
	units() *slab.Pool
	// evict moves one unit out of memory; false: it cannot leave now.
	evict(id uint32) (bool, error)
	// touchable reports whether evict may take a unit: not if it belongs to the current row.
	touchable(id uint32) bool
	unitDirty(id uint32) bool
	// bring has the unit with this sub-key in the overflow come back into the row, which is the current one.
	bring(sub []byte) error
}
