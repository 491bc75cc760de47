package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/sluiceio/sluice/flow/element"
)

// Codec encodes values of T in the structure of today.
type Codec[T any] struct {
	prog   *program
	schema string
	flat   bool
}

// Of compiles the codec of T. r holds the pipeline's own codecs and variants; nil means none.
func Of[T any](r *Registry) (*Codec[T], error) {
	p, err := PlanOf(reflect.TypeFor[T](), r)
	if err != nil {
		return nil, err
	}
	return &Codec[T]{prog: p.prog, schema: p.schema, flat: p.flat}, nil
}

// Schema is the structure of T as text: field names and types, not the names of Go types (docs/format/codec.md).
// Equal schemas mean equal bytes.
func (c *Codec[T]) Schema() string { return c.schema }

// Flat reports that T holds no slice, map, pointer or interface: a plain copy of a value is a snapshot of it. Strings
// and time.Time are immutable and count as flat.
func (c *Codec[T]) Flat() bool { return c.flat }

// Append encodes *v. It fails only for what the types cannot rule out: an interface that holds an unregistered type,
// or an error of the user's own codec.
func (c *Codec[T]) Append(dst []byte, v *T) ([]byte, error) {
	return c.prog.encode(dst, unsafe.Pointer(v))
}

// Decode reads one value from the front of src into *v and returns what follows. Nothing in *v points into src.
// After an error *v is undefined.
func (c *Codec[T]) Decode(src []byte, v *T) (rest []byte, err error) {
	n, err := c.prog.decode(src, 0, unsafe.Pointer(v))
	if err != nil {
		return nil, err
	}
	return src[n:], nil
}

// AppendRecord encodes one record of a frame: the distance of its time from that of the record before it, then the
// value. prev is 0 for the first record of a frame.
func (c *Codec[T]) AppendRecord(dst []byte, v *T, at, prev element.Time) ([]byte, error) {
	return c.prog.encode(binary.AppendVarint(dst, int64(at-prev)), unsafe.Pointer(v))
}

// DecodeRecords appends the count records that src consists of to b. After an error b is as before.
func (c *Codec[T]) DecodeRecords(src []byte, count int, b *element.Batch[T]) error {
	if count < 0 || count > len(src) { // a record has at least one byte, that of its time
		return fmt.Errorf("%w: %d records in %d bytes", ErrCorrupt, count, len(src))
	}
	old := b.Len()
	if err := c.decodeRecords(src, count, b); err != nil {
		clear(b.Vals[old:])
		b.Vals, b.Times = b.Vals[:old], b.Times[:old]
		return err
	}
	return nil
}

func (c *Codec[T]) decodeRecords(src []byte, count int, b *element.Batch[T]) error {
	var at element.Time
	var pos int
	for i := range count {
		d, n := binary.Varint(src[pos:])
		if n <= 0 {
			return fmt.Errorf("%w: time of record %d", ErrCorrupt, i)
		}
		at += element.Time(d)
		pos += n
		var zero T
		b.Append(zero, at)
		var err error
		if pos, err = c.prog.decode(src, pos, unsafe.Pointer(&b.Vals[len(b.Vals)-1])); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	if pos != len(src) {
		return fmt.Errorf("%w: %d bytes after record %d", ErrCorrupt, len(src)-pos, count)
	}
	return nil
}

// flat reports whether copying a value copies everything that can change.
func flat(t reflect.Type) bool {
	if t == timeType {
		return true
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
