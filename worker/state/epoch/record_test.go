package epoch

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

func empty() chunk.Header { return chunk.Header{MaxParallelism: 4, Scope: chunk.Keyed, Key: "str"} }

func newEpochs() *Epochs { return New(Config{Tracking: true, Header: empty}) }

// world is a unit whose value changes, and what decides about its epochs: as plain Go.
type world struct {
	l      *Epochs
	now    []byte // nil: no value
	base   []byte
	frozen map[element.CheckpointID][]byte
	record []byte
	id     element.CheckpointID
}

// What a record says is, after any number of completions, aborts and rewinds, what the unit would be had it stayed.
func TestARecordSaysWhatTheUnitWouldBe(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{l: newEpochs(), frozen: map[element.CheckpointID][]byte{}}
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1:
				w.change(rapid.SampledFrom([][]byte{nil, {}, {1}, {2, 2}}).Draw(rt, "value"))
			case 2:
				w.id++
				if _, err := w.l.Freeze(w.id, Delta); err != nil {
					rt.Fatal(err)
				}
				w.frozen[w.id] = w.now
			case 3, 4:
				if len(w.frozen) == 0 {
					continue
				}
				id := element.CheckpointID(rapid.IntRange(1, int(w.id)).Draw(rt, "id"))
				was, known := w.frozen[id]
				if !known {
					continue
				}
				w.decide(rt, id, was, rapid.Bool().Draw(rt, "complete"))
			case 5:
				if err := w.l.Rewind(w.l.Base()); err != nil {
					rt.Fatal(err)
				}
				w.now = w.base
				clear(w.frozen)
			}
			w.check(rt)
		}
	})
}

// change brings the unit back, gives it a value, and lets it leave again.
func (w *world) change(v []byte) {
	undos := w.read()
	if open := w.l.Open(); len(undos) == 0 || undos[len(undos)-1].Seg != open {
		undos = append(undos, Undo{Seg: open, Exists: w.now != nil, Was: w.now})
	}
	w.now = v
	var d Departure
	d.Image(w.l, v != nil, v, undos)
	w.record = d.Record
}

func (w *world) read() []Undo {
	if w.record == nil {
		return nil
	}
	a := w.l.Arrive(w.record)
	_, _, undos, err := a.Image()
	if err != nil {
		panic(err)
	}
	return append([]Undo(nil), undos...)
}

func (w *world) decide(t *rapid.T, id element.CheckpointID, was []byte, complete bool) {
	if !complete {
		if err := w.l.Aborted(id); err != nil {
			t.Fatal(err)
		}
		delete(w.frozen, id)
		return
	}
	if err := w.l.Completed(id); err != nil {
		t.Fatal(err)
	}
	w.base = was
	for other := range w.frozen {
		if other <= id {
			delete(w.frozen, other)
		}
	}
}

func (w *world) check(t *rapid.T) {
	var exists bool
	var value, base []byte
	var undos []Undo
	if w.record != nil {
		a := w.l.Arrive(w.record)
		var err error
		if exists, value, undos, err = a.Image(); err != nil || a.End() != nil {
			t.Fatal(err, a.End())
		}
	}
	if exists != (w.now != nil) || !bytes.Equal(value, w.now) {
		t.Fatalf("the record says %v, %v; want %v", exists, value, w.now)
	}
	if base = value; len(undos) > 0 {
		base, exists = undos[0].Was, undos[0].Exists
	}
	if exists != (w.base != nil) || !bytes.Equal(base, w.base) {
		t.Fatalf("the record says that the base is %v, %v; want %v", exists, base, w.base)
	}
	for i := 1; i < len(undos); i++ {
		if undos[i].Seg <= undos[i-1].Seg {
			t.Fatalf("undos of segments %d and %d", undos[i-1].Seg, undos[i].Seg)
		}
	}
}

// FuzzImage: any bytes are refused or read, without a panic.
func FuzzImage(f *testing.F) {
	var d Departure
	l := newEpochs()
	d.Image(l, true, []byte("value"), []Undo{{0, true, []byte("was")}})
	f.Add(d.Record)
	f.Add([]byte{3, 1, 2, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := l.Arrive(b)
		for {
			_, _, undos, err := a.Image()
			if err != nil {
				return
			}
			for _, u := range undos {
				if u.Seg < 0 || u.Seg >= l.Len() {
					t.Fatalf("segment %d of %d", u.Seg, l.Len())
				}
			}
		}
	})
}
