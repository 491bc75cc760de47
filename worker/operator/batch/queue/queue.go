package queue

import (
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/batch"
	"github.com/sluiceio/sluice/worker/operator/batch/slab"
	"github.com/sluiceio/sluice/worker/spill"
)

// Queue holds records with their event times.
type Queue[T any] struct {
	mem   *batch.Memory
	codec *codec.Codec[T]
	size  *spill.Sizer[T]
	rows  slab.Rows[entry[T]]
	extra int64 // taken for what the rows lead to

	// Once something lies on disk, everything that follows goes there: so the order is kept.
	file *spill.File
	w    *spill.Writer[T]

	record T // that is being written down, or handed over
}

type entry[T any] struct {
	val T
	at  element.Time
}

// New makes an empty queue.
func New[T any](m *batch.Memory, c *codec.Codec[T], size *spill.Sizer[T]) *Queue[T] {
	return &Queue[T]{mem: m, codec: c, size: size, rows: slab.Make[entry[T]](slab.ShapeFor[entry[T]](m.Limit(), 2), m.Budget)}
}

// Add appends a record.
func (q *Queue[T]) Add(v T, at element.Time) error {
	if q.w == nil {
		if q.keep(v, at) {
			return nil
		}
		if err := q.Spill(); err != nil {
			return err
		}
	}
	return q.write(v, at)
}

func (q *Queue[T]) keep(v T, at element.Time) bool {
	e := q.rows.Add()
	if e == nil {
		return false
	}
	e.val, e.at = v, at
	extra := q.size.Extra(&e.val)
	if !q.mem.Take(extra) {
		q.rows.Drop()
		return false
	}
	q.extra += extra
	return true
}

// write writes a record down. A pointer to the argument would move each record to the heap.
func (q *Queue[T]) write(v T, at element.Time) error {
	q.record = v
	return q.w.Add(&q.record, at)
}

// Spill moves what is in memory to disk. It does nothing if nothing is in memory.
func (q *Queue[T]) Spill() error {
	if q.w != nil {
		return nil
	}
	if err := q.mem.MustSpill(); err != nil {
		return err
	}
	q.mem.Deeper(1)
	q.file = q.mem.NewFile()
	q.w = spill.NewWriter(q.file, q.codec)
	for chunk := range q.rows.Chunks {
		for i := range chunk {
			if err := q.w.Add(&chunk[i].val, chunk[i].at); err != nil {
				return err
			}
		}
	}
	q.clear()
	return nil
}

// Held is the memory that Spill would give back.
func (q *Queue[T]) Held() int64 { return q.rows.Bytes() + q.extra }

func (q *Queue[T]) clear() {
	q.rows.Release()
	q.mem.Give(q.extra)
	q.extra = 0
}

// Drain hands all records over in order and leaves the queue empty. Between two records the memory of those that were
// handed over may still be taken.
func (q *Queue[T]) Drain(f func(v T, at element.Time) error) error {
	for chunk := range q.rows.Chunks {
		for i := range chunk {
			if err := f(chunk[i].val, chunk[i].at); err != nil {
				return err
			}
		}
	}
	q.clear()
	if q.w == nil {
		return nil
	}
	s, err := q.w.Finish()
	if err != nil {
		return err
	}
	r := spill.NewReader(q.file, q.codec, s)
	defer r.Close()
	var zero T
	for {
		q.record = zero
		at, ok, err := r.Next(&q.record)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := f(q.record, at); err != nil {
			return err
		}
		if err := q.mem.Stopped(r.Left()); err != nil {
			return err
		}
	}
	q.w = nil
	return q.file.Close()
}
