package epoch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/snapshot/chunk"
)

// A record is a unit as it was when it left memory: for each column of a row, or for the one column of an entry or run,
// an image. docs/format/overflow.md has the form.

// Flags of an image.
const (
	imageExists = 1 << iota
	imageUndone // undecided segments have changed the unit: an undo list follows
)

// Departure is a unit on its way out of memory.
type Departure struct {
	chunk.Entry        // of the unit in chunks; value, state and op change
	Record      []byte // what goes to the overflow
	Changed     bool   // the record differs from the one that is there
	Kept        bool   // the record says something
}

// Image appends an image. undos are oldest first.
func (d *Departure) Image(l *Epochs, exists bool, value []byte, undos []Undo) {
	flags := byte(0)
	if exists {
		flags |= imageExists
	}
	if len(undos) > 0 {
		flags |= imageUndone
	}
	d.Kept = d.Kept || flags != 0
	d.Record = append(d.Record, flags)
	if exists {
		d.Record = appendBytes(d.Record, value)
	}
	if len(undos) == 0 {
		return
	}
	l.departed = true
	d.Record = binary.AppendUvarint(d.Record, uint64(len(undos)))
	for _, u := range undos {
		d.Record = binary.AppendUvarint(d.Record, uint64(l.epochs[u.Seg].was.hi)<<1|bit(u.Exists))
		if u.Exists {
			d.Record = appendBytes(d.Record, u.Was)
		}
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func appendBytes(b, s []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// Journal says in the journal of each segment of undos what the unit was at its end.
func (d *Departure) Journal(l *Epochs, exists bool, value []byte, undos []Undo) error {
	for i, u := range undos {
		ex, v := exists, value
		if i+1 < len(undos) {
			ex, v = undos[i+1].Exists, undos[i+1].Was
		}
		d.Op, d.Value = chunk.Put, v
		if !ex {
			d.Op, d.Value = chunk.Delete, nil
		}
		if err := l.Journal(u.Seg, &d.Entry); err != nil {
			return err
		}
	}
	return nil
}

// ErrRecord is a record that no departure has written.
var ErrRecord = errors.New("bad record in the overflow of the state")

// Undo is a pre-image on its way to or from a record.
type Undo struct {
	Seg    int // index of the segment
	Exists bool
	Was    []byte
}

// Arrival is a record that is read.
type Arrival struct {
	rest   []byte
	epochs *Epochs
	bad    bool
	undos  []Undo // scratch
}

// Arrive begins to read a record.
func (l *Epochs) Arrive(record []byte) Arrival { return Arrival{rest: record, epochs: l} }

func (a *Arrival) uvarint() uint64 {
	x, n := binary.Uvarint(a.rest)
	if n <= 0 {
		a.bad, a.rest = true, nil
		return 0
	}
	a.rest = a.rest[n:]
	return x
}

func (a *Arrival) bytes() []byte {
	n := a.uvarint()
	if n > uint64(len(a.rest)) {
		a.bad, a.rest = true, nil
		return nil
	}
	b := a.rest[:n:n]
	a.rest = a.rest[n:]
	return b
}

// Image reads an image and finds out what it means now: pre-images of epochs that were undone become the value, those
// of decided epochs are forgotten, and of several that belong to one segment by now the oldest counts. undos are oldest
// first, with their segments.
func (a *Arrival) Image() (exists bool, value []byte, undos []Undo, err error) {
	if len(a.rest) == 0 {
		return false, nil, nil, ErrRecord
	}
	flags := a.rest[0]
	a.rest = a.rest[1:]
	if exists = flags&imageExists != 0; exists {
		value = a.bytes()
	}
	a.undos = a.undos[:0]
	applied := false // the oldest pre-image of an epoch that was undone
	if flags&imageUndone != 0 {
		n := a.uvarint()
		if n > uint64(len(a.rest)) {
			return false, nil, nil, ErrRecord
		}
		for range n {
			head := a.uvarint()
			u := Undo{Exists: head&1 != 0}
			if u.Exists {
				u.Was = a.bytes()
			}
			if head>>1 > uint64(a.epochs.now) {
				return false, nil, nil, ErrRecord
			}
			f, seg := a.epochs.fateOf(uint32(head >> 1))
			switch {
			case f == undone && !applied:
				exists, value, applied = u.Exists, u.Was, true
			case f == undecided && (len(a.undos) == 0 || a.undos[len(a.undos)-1].Seg != seg):
				u.Seg = seg
				a.undos = append(a.undos, u)
			}
		}
	}
	if a.bad {
		return false, nil, nil, ErrRecord
	}
	return exists, value, a.undos, nil
}

// End reports what follows the last image, which is nothing.
func (a *Arrival) End() error {
	if len(a.rest) > 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrRecord, len(a.rest))
	}
	return nil
}
