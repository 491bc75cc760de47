package codec

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Decoder reads values of T from bytes of an older schema.
type Decoder[T any] struct {
	prog *program
}

// Migrating compiles the decoder of T for bytes that were written with the schema old. Fields that T has not any more
// are skipped, fields that it did not have yet are zero, the order does not matter, integers may have become wider.
// Everything else is E009.
func Migrating[T any](old string, r *Registry) (*Decoder[T], error) {
	p, err := MigratingPlan(reflect.TypeFor[T](), old, r)
	if err != nil {
		return nil, err
	}
	return &Decoder[T]{prog: p.prog}, nil
}

// Decode reads one value from the front of src into *v and returns what follows. Nothing in *v points into src.
// After an error *v is undefined.
func (d *Decoder[T]) Decode(src []byte, v *T) (rest []byte, err error) {
	n, err := d.prog.decode(src, 0, unsafe.Pointer(v))
	if err != nil {
		return nil, err
	}
	return src[n:], nil
}

// skip is the position behind the value of n at src[pos:].
func (n *node) skip(src []byte, pos int) (int, error) {
	if len(src)-pos < n.min() {
		return 0, errCutOff
	}
	switch n.kind {
	case kindBool, kindI8, kindI16, kindI32, kindI64, kindU8, kindU16, kindU32, kindU64:
		if _, pos = uvarint(src, pos); pos < 0 {
			return 0, errNumber
		}
		return pos, nil
	case kindString, kindOpaque, kindProto, kindCustom:
		size, pos := uvarint(src, pos)
		if pos < 0 || size > uint64(len(src)-pos) {
			return 0, errCutOff
		}
		return pos + int(size), nil
	case kindArray:
		return n.elem.skipAll(src, pos, n.size)
	case kindStruct:
		return skipFields(n.fields, src, pos)
	case kindOptional, kindOneOf:
		return n.skipChoice(src, pos)
	case kindBytes, kindList, kindMap:
		return n.skipMany(src, pos)
	}
	return pos + n.min(), nil // of fixed size
}

var errCutOff = fmt.Errorf("%w: cut off", ErrCorrupt)

func (n *node) skipAll(src []byte, pos, count int) (_ int, err error) {
	if n.min() == 0 { // then it has no bytes at all
		return pos, nil
	}
	for range count {
		if pos, err = n.skip(src, pos); err != nil {
			return 0, err
		}
	}
	return pos, nil
}

func skipFields(fields []field, src []byte, pos int) (_ int, err error) {
	for _, f := range fields {
		if pos, err = f.node.skip(src, pos); err != nil {
			return 0, err
		}
	}
	return pos, nil
}

func (n *node) skipChoice(src []byte, pos int) (int, error) {
	choices := n.fields
	if n.kind == kindOptional {
		choices = []field{{node: n.elem}}
	}
	i, pos := uvarint(src, pos)
	if pos < 0 || i > uint64(len(choices)) {
		return 0, fmt.Errorf("%w: bad variant", ErrCorrupt)
	}
	if i == 0 {
		return pos, nil
	}
	return choices[i-1].node.skip(src, pos)
}

func (n *node) skipMany(src []byte, pos int) (int, error) {
	count, pos, err := length(src, pos)
	if err != nil || count < 0 {
		return pos, err
	}
	if n.kind == kindBytes {
		return pos + count, nil
	}
	entry := &node{kind: kindStruct, fields: []field{{node: n.elem}}}
	if n.kind == kindMap {
		entry.fields = []field{{node: n.key}, {node: n.elem}}
	}
	if entry.min() == 0 {
		return pos + count, nil
	}
	return entry.skipAll(src, pos, count)
}
