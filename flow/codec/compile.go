package codec

import (
	"fmt"
	"reflect"
)

// code is what an op does with one part of a value.
type code uint8

const (
	opBool code = iota + 1
	opI8
	opI16
	opI32
	opI64
	opU8
	opU16
	opU32
	opU64
	opF32 // four bytes as they are in memory, little-endian
	opF64
	opString
	opBytes
	opTime
	opRaw    // n bytes
	opFixed  // n elements of sub, in place
	opList   // slice of sub
	opMap    // map from key to sub
	opPtr    // pointer to sub
	opOneOf  // interface
	opOpaque // MarshalBinary
	opProto
	opCustom
	opSkip // decoding only: bytes of a field that the type no longer has
)

// op encodes or decodes the part of a value that lies off bytes from its start.
type op struct {
	code code
	n    int // opRaw: bytes; opFixed: elements
	off  uintptr
	ext  *ext
}

// ext is what the rarer ops need.
type ext struct {
	typ      reflect.Type
	size     uintptr // of an element in memory
	sub, key *program
	cases    []oneOfCase          // opOneOf, by number
	byType   map[reflect.Type]int // opOneOf, index of cases
	custom   *custom
	version  uint32 // opCustom: of the bytes to decode
	skip     *node  // opSkip
	pad      bool   // opList: an element may take no bytes, so a zero byte stands for each
}

// oneOfCase is a variant; sub is nil if the type of today has it no more.
type oneOfCase struct {
	name string
	typ  reflect.Type
	sub  *program
}

// program is a compiled type: its ops in order of the encoding. The same program encodes and decodes, unless it
// migrates.
type program struct {
	ops   []op
	names []string // of the parts, for errors; runs parallel to ops
	// head bounds the bytes of all scalars and length prefixes in ops: room for them is made once.
	head int
	// min is the smallest number of bytes of an encoding: counts are checked against it before memory is allocated.
	min int
	// clear: ops do not write every part of the value, so it must be zeroed before decoding.
	clear bool
	typ   reflect.Type
}

type compiler struct {
	registry *Registry
}

// compile makes the program for values of t in encoding n. n may be an older schema of t; then the program only decodes.
func compile(n *node, t reflect.Type, r *Registry) (*program, error) {
	c := compiler{registry: r}
	return c.program(n, t, typeName(t))
}

func (c *compiler) program(n *node, t reflect.Type, path string) (*program, error) {
	p := &program{typ: t}
	if err := c.part(p, n, t, 0, path); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *program) add(o op, path string, head, least int) {
	p.ops = append(p.ops, o)
	p.names = append(p.names, path)
	p.head += head
	p.min += least
}

// maxVarint is the length of the longest varint.
const maxVarint = 10

// part adds the ops for a value of t at offset off, encoded as n.
func (c *compiler) part(p *program, n *node, t reflect.Type, off uintptr, path string) error {
	today := special(t, c.registry)
	if today != nil || n.kind == kindOpaque || n.kind == kindProto || n.kind == kindCustom || n.kind == kindTime {
		return c.special(p, n, today, op{off: off, ext: &ext{typ: t}}, path)
	}
	switch n.kind {
	case kindStruct:
		if t.Kind() == reflect.Struct {
			return c.structure(p, n, t, off, path)
		}
	case kindRaw:
		if t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() == n.size {
			p.add(op{code: opRaw, off: off, n: n.size}, path, n.size, n.size)
			return nil
		}
	case kindArray:
		if t.Kind() == reflect.Array && t.Len() == n.size {
			return c.array(p, n, t, off, path)
		}
	case kindBytes:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			p.add(op{code: opBytes, off: off}, path, maxVarint, 1)
			return nil
		}
	case kindList:
		if t.Kind() == reflect.Slice {
			return c.nested(p, op{code: opList, off: off}, n.elem, t, path+"[]")
		}
	case kindOptional:
		if t.Kind() == reflect.Pointer {
			return c.nested(p, op{code: opPtr, off: off}, n.elem, t, path)
		}
	case kindMap:
		if t.Kind() == reflect.Map {
			return c.mapping(p, n, t, off, path)
		}
	case kindOneOf:
		if t.Kind() == reflect.Interface {
			return c.oneOf(p, n, t, off, path)
		}
	default:
		if done := c.scalar(p, n.kind, t, off, path); done {
			return nil
		}
	}
	return mismatch(n, t, path)
}

func mismatch(n *node, t reflect.Type, path string) error {
	return &TypeError{Code: CodeMigration, Path: path,
		Reason: fmt.Sprintf("stored as %s, which cannot be read into %s", n, t),
		Hint:   "give the new type another field name, and convert in the program"}
}

// scalar adds a number, boolean or string; false if wire and memory do not agree. An integer may have become wider.
func (c *compiler) scalar(p *program, k kind, t reflect.Type, off uintptr, path string) bool {
	mem, ok := scalarKinds[t.Kind()]
	switch {
	case !ok:
		return false
	case mem == k:
	case k >= kindI8 && mem <= kindI64 && mem > k:
	case k >= kindU8 && mem <= kindU64 && mem > k:
	default:
		return false
	}
	switch mem {
	case kindBool:
		p.add(op{code: opBool, off: off}, path, 1, 1)
	case kindF32:
		p.add(op{code: opF32, off: off}, path, 4, 4)
	case kindF64:
		p.add(op{code: opF64, off: off}, path, 8, 8)
	case kindC64: // two floats, one behind the other
		p.add(op{code: opF32, off: off}, path, 4, 4)
		p.add(op{code: opF32, off: off + 4}, path, 4, 4)
	case kindC128:
		p.add(op{code: opF64, off: off}, path, 8, 8)
		p.add(op{code: opF64, off: off + 8}, path, 8, 8)
	case kindString:
		p.add(op{code: opString, off: off}, path, maxVarint, 1)
	default: // integers: codes and kinds have the same order
		p.add(op{code: opI8 + code(mem-kindI8), off: off}, path, maxVarint, 1)
	}
	return true
}

// special adds a part that is not taken apart.
func (c *compiler) special(p *program, n, today *node, o op, path string) error {
	t := o.ext.typ
	if today == nil || today.kind != n.kind || today.name != n.name {
		return mismatch(n, t, path)
	}
	switch n.kind {
	case kindTime:
		p.add(op{code: opTime, off: o.off}, path, timeSize, timeSize)
		return nil
	case kindOpaque:
		o.code = opOpaque
	case kindProto:
		o.code = opProto
	case kindCustom:
		o.code, o.ext.custom, o.ext.version = opCustom, c.registry.custom(t), n.version
		if n.version > today.version {
			return &TypeError{Code: CodeMigration, Path: path, Hint: "run the newer program",
				Reason: fmt.Sprintf("stored by version %d of codec %q, the program has %d", n.version, n.name, today.version)}
		}
	}
	p.add(o, path, maxVarint, 1)
	return nil
}

func (c *compiler) structure(p *program, n *node, t reflect.Type, off uintptr, path string) error {
	byName := map[string]reflect.StructField{}
	for i := range t.NumField() {
		if name, ok := fieldName(t.Field(i)); ok {
			byName[name] = t.Field(i)
		} else {
			p.clear = true
		}
	}
	for _, f := range n.fields {
		sf, ok := byName[f.name]
		if !ok {
			p.add(op{code: opSkip, ext: &ext{skip: f.node}}, path+"."+f.name, 0, f.node.min())
			continue
		}
		delete(byName, f.name)
		if err := c.part(p, f.node, sf.Type, off+sf.Offset, path+"."+sf.Name); err != nil {
			return err
		}
	}
	if len(byName) > 0 { // fields that the old schema lacks
		p.clear = true
	}
	return nil
}

// maxUnrolled bounds arrays whose elements get ops of their own.
const maxUnrolled = 4

func (c *compiler) array(p *program, n *node, t reflect.Type, off uintptr, path string) error {
	size := t.Elem().Size()
	if n.size <= maxUnrolled {
		for i := range n.size {
			if err := c.part(p, n.elem, t.Elem(), off+uintptr(i)*size, path+"[]"); err != nil {
				return err
			}
		}
		return nil
	}
	sub, err := c.program(n.elem, t.Elem(), path+"[]")
	if err != nil {
		return err
	}
	p.clear = p.clear || sub.clear
	p.add(op{code: opFixed, off: off, n: n.size, ext: &ext{typ: t, size: size, sub: sub}}, path, 0, n.size*sub.min)
	return nil
}

// nested adds a slice or pointer.
func (c *compiler) nested(p *program, o op, elem *node, t reflect.Type, path string) error {
	sub, err := c.program(elem, t.Elem(), path)
	if err != nil {
		return err
	}
	o.ext = &ext{typ: t, size: t.Elem().Size(), sub: sub, pad: elem.min() == 0}
	p.add(o, path, maxVarint, 1)
	return nil
}

func (c *compiler) mapping(p *program, n *node, t reflect.Type, off uintptr, path string) error {
	key, err := c.program(n.key, t.Key(), path+"[key]")
	if err != nil {
		return err
	}
	sub, err := c.program(n.elem, t.Elem(), path+"[]")
	if err != nil {
		return err
	}
	x := &ext{typ: t, key: key, sub: sub, pad: n.key.min()+n.elem.min() == 0}
	p.add(op{code: opMap, off: off, ext: x}, path, maxVarint, 1)
	return nil
}

func (c *compiler) oneOf(p *program, n *node, t reflect.Type, off uintptr, path string) error {
	x := &ext{typ: t, byType: map[reflect.Type]int{}}
	today := map[string]reflect.Type{}
	for _, v := range c.registry.variantsOf(t) {
		today[v.name] = v.typ
	}
	for i, f := range n.fields {
		oc := oneOfCase{name: f.name, typ: today[f.name]}
		if oc.typ != nil {
			var err error
			if oc.sub, err = c.program(f.node, oc.typ, path+".("+f.name+")"); err != nil {
				return err
			}
			x.byType[oc.typ] = i
		}
		x.cases = append(x.cases, oc)
	}
	p.add(op{code: opOneOf, off: off, ext: x}, path, maxVarint, 1)
	return nil
}

// min is the smallest number of bytes that n encodes to.
func (n *node) min() int {
	switch n.kind {
	case kindF32:
		return 4
	case kindF64, kindC64:
		return 8
	case kindC128:
		return 16
	case kindTime:
		return timeSize
	case kindRaw:
		return n.size
	case kindArray:
		return n.size * n.elem.min()
	case kindStruct:
		sum := 0
		for _, f := range n.fields {
			sum += f.node.min()
		}
		return sum
	}
	return 1
}
