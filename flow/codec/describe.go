package codec

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
)

var (
	protoType       = reflect.TypeFor[proto.Message]()
	appenderType    = reflect.TypeFor[encoding.BinaryAppender]()
	marshalerType   = reflect.TypeFor[encoding.BinaryMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

const (
	// maxDepth bounds the nesting of a schema.
	maxDepth = 64
	// maxArray bounds the length of an array, in elements.
	maxArray = 1 << 20
)

var scalarKinds = map[reflect.Kind]kind{
	reflect.Bool: kindBool,
	reflect.Int:  kindI64, reflect.Int8: kindI8, reflect.Int16: kindI16, reflect.Int32: kindI32, reflect.Int64: kindI64,
	reflect.Uint: kindU64, reflect.Uint8: kindU8, reflect.Uint16: kindU16, reflect.Uint32: kindU32, reflect.Uint64: kindU64,
	reflect.Float32: kindF32, reflect.Float64: kindF64, reflect.Complex64: kindC64, reflect.Complex128: kindC128,
	reflect.String: kindString,
}

// describe derives the schema of t.
func describe(t reflect.Type, r *Registry) (*node, error) {
	d := describer{registry: r, inside: map[reflect.Type]bool{}}
	return d.node(t, typeName(t))
}

// describer walks a type. inside holds the types on the way to the current one: meeting one again is recursion.
type describer struct {
	registry *Registry
	inside   map[reflect.Type]bool
	depth    int
}

func (d *describer) node(t reflect.Type, path string) (*node, error) {
	if n := special(t, d.registry); n != nil {
		return n, nil
	}
	if k, ok := scalarKinds[t.Kind()]; ok {
		return &node{kind: k}, nil
	}
	if d.inside[t] {
		return nil, noCodec(path, "type "+t.String()+" contains itself",
			"keep such values as bytes, or register a codec for "+t.String())
	}
	if d.depth++; d.depth > maxDepth {
		return nil, noCodec(path, fmt.Sprintf("nested more than %d levels deep", maxDepth), "")
	}
	d.inside[t] = true
	defer func() { delete(d.inside, t); d.depth-- }()
	switch t.Kind() {
	case reflect.Array:
		return d.array(t, path)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && special(t.Elem(), d.registry) == nil {
			return &node{kind: kindBytes}, nil
		}
		return d.wrap(kindList, t.Elem(), path+"[]")
	case reflect.Pointer:
		return d.wrap(kindOptional, t.Elem(), path)
	case reflect.Map:
		return d.mapping(t, path)
	case reflect.Struct:
		return d.structure(t, path)
	case reflect.Interface:
		return d.oneOf(t, path)
	case reflect.Func, reflect.Chan:
		return nil, noCodec(path, t.String()+" cannot be encoded", "leave the field out with the tag `flow:\"-\"`")
	}
	return nil, noCodec(path, t.String()+" is an address and means nothing in another process", "use an integer type")
}

func noCodec(path, reason, hint string) error {
	return &TypeError{Code: CodeNoCodec, Path: path, Reason: reason, Hint: hint}
}

// special is the schema of a type that is not taken apart; nil for all others.
func special(t reflect.Type, r *Registry) *node {
	if c := r.custom(t); c != nil {
		return &node{kind: kindCustom, name: c.name, version: c.version}
	}
	if t == timeType {
		return &node{kind: kindTime}
	}
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
		return nil // a pointer adds nil to whatever its element is
	}
	p := reflect.PointerTo(t)
	if p.Implements(protoType) {
		m := reflect.New(t).Interface().(proto.Message)
		return &node{kind: kindProto, name: string(m.ProtoReflect().Descriptor().FullName())}
	}
	if p.Implements(unmarshalerType) && (p.Implements(appenderType) || p.Implements(marshalerType)) && !promoted(t) {
		return &node{kind: kindOpaque, name: opaqueName(t)}
	}
	return nil
}

// promoted reports that an embedded field has MarshalBinary. Then the method of t may be that field's, which knows
// nothing of the other fields, and t is taken apart instead.
func promoted(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			continue
		}
		e := f.Type
		if e.Kind() != reflect.Pointer && e.Kind() != reflect.Interface {
			e = reflect.PointerTo(e)
		}
		if e.Implements(marshalerType) || e.Implements(appenderType) || e.Implements(unmarshalerType) {
			return true
		}
	}
	return false
}

func opaqueName(t reflect.Type) string {
	if t.PkgPath() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}

func (d *describer) wrap(k kind, elem reflect.Type, path string) (*node, error) {
	e, err := d.node(elem, path)
	if err != nil {
		return nil, err
	}
	return &node{kind: k, elem: e}, nil
}

func (d *describer) array(t reflect.Type, path string) (*node, error) {
	if t.Len() > maxArray {
		return nil, noCodec(path, fmt.Sprintf("array of %d elements", t.Len()), "use a slice")
	}
	if t.Elem().Kind() == reflect.Uint8 && special(t.Elem(), d.registry) == nil {
		return &node{kind: kindRaw, size: t.Len()}, nil
	}
	n, err := d.wrap(kindArray, t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	n.size = t.Len()
	return n, nil
}

func (d *describer) mapping(t reflect.Type, path string) (*node, error) {
	key, err := d.node(t.Key(), path+"[key]")
	if err != nil {
		return nil, err
	}
	n, err := d.wrap(kindMap, t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	n.key = key
	return n, nil
}

func (d *describer) structure(t reflect.Type, path string) (*node, error) {
	n := &node{kind: kindStruct}
	names := map[string]string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := fieldName(f)
		if !ok {
			continue
		}
		at := path + "." + f.Name
		if err := exported(f, at); err != nil {
			return nil, err
		}
		if other := names[name]; other != "" {
			return nil, noCodec(at, fmt.Sprintf("has the same name %q in the schema as %s", name, other), "change the `flow` tag")
		}
		names[name] = f.Name
		e, err := d.node(f.Type, at)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{name, e})
	}
	return n, nil
}

// fieldName is the name of f in the schema; ok is false for a field that is no part of it.
func fieldName(f reflect.StructField) (name string, ok bool) {
	if f.Name == "_" { // no program can read it
		return "", false
	}
	tag, _, _ := strings.Cut(f.Tag.Get("flow"), ",")
	if tag == "-" {
		return "", false
	}
	if tag != "" {
		return tag, true
	}
	return f.Name, true
}

// exported refuses a field that its package hides. The fields of an embedded struct are visible even if the name of
// its type is not.
func exported(f reflect.StructField, path string) error {
	if f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
		return nil
	}
	return noCodec(path, "unexported field",
		"export it, leave it out with the tag `flow:\"-\"`, or give the struct MarshalBinary and UnmarshalBinary")
}

func (d *describer) oneOf(t reflect.Type, path string) (*node, error) {
	vs := d.registry.variantsOf(t)
	if len(vs) == 0 {
		return nil, noCodec(path, "interface "+t.String()+" has no registered variants",
			"register each concrete type with Pipeline.Variant, or use a concrete type")
	}
	n := &node{kind: kindOneOf}
	for _, v := range vs {
		e, err := d.node(v.typ, path+".("+v.name+")")
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{v.name, e})
	}
	return n, nil
}
