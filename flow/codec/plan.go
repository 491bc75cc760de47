package codec

import (
	"fmt"
	"reflect"
	"unsafe"
)

// Plan is a Codec for code that knows the type of its values at run time only: the compiler makes such code once, not
// for every type. Who calls it answers for the pointers.
type Plan struct {
	prog   *program
	schema string
	flat   bool
}

// PlanOf compiles the codec of a type, as Of does.
func PlanOf(t reflect.Type, r *Registry) (*Plan, error) {
	n, err := describe(t, r)
	if err != nil {
		return nil, err
	}
	prog, err := compile(n, t, r)
	if err != nil {
		return nil, err
	}
	return &Plan{prog: prog, schema: n.String(), flat: flat(t)}, nil
}

// MigratingPlan compiles the decoder of a type for bytes that were written with the schema old, as Migrating does.
func MigratingPlan(t reflect.Type, old string, r *Registry) (*Plan, error) {
	if _, err := describe(t, r); err != nil {
		return nil, err
	}
	n, err := parse(old)
	if err != nil {
		return nil, fmt.Errorf("stored schema of %s: %w", t, err)
	}
	prog, err := compile(n, t, r)
	if err != nil {
		return nil, err
	}
	return &Plan{prog: prog, schema: old, flat: flat(t)}, nil
}

// Schema is that of Codec.
func (p *Plan) Schema() string { return p.schema }

// Flat is that of Codec.
func (p *Plan) Flat() bool { return p.flat }

// Append is that of Codec, for the value at v.
func (p *Plan) Append(dst []byte, v unsafe.Pointer) ([]byte, error) { return p.prog.encode(dst, v) }

// Decode is that of Codec, for the value at v.
func (p *Plan) Decode(src []byte, v unsafe.Pointer) (rest []byte, err error) {
	n, err := p.prog.decode(src, 0, v)
	if err != nil {
		return nil, err
	}
	return src[n:], nil
}
