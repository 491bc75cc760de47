package codec

import (
	"strconv"
	"strings"
)

// kind is a form of encoding.
type kind uint8

const (
	kindBool kind = iota + 1
	kindI8
	kindI16
	kindI32
	kindI64
	kindU8
	kindU16
	kindU32
	kindU64
	kindF32
	kindF64
	kindC64
	kindC128
	kindString
	kindBytes
	kindTime
	kindRaw      // size bytes
	kindArray    // size times elem
	kindList     // any number of elem, or nil
	kindMap      // from key to elem, or nil
	kindOptional // elem or nil
	kindStruct   // fields
	kindOneOf    // one of fields, or nil
	kindOpaque   // the type's own MarshalBinary; name is that of the Go type, its only identity
	kindProto    // a protobuf message; name is that of the message
	kindCustom   // a registered codec: name and version
)

var kindNames = [...]string{
	kindBool: "bool", kindI8: "i8", kindI16: "i16", kindI32: "i32", kindI64: "i64", kindU8: "u8", kindU16: "u16",
	kindU32: "u32", kindU64: "u64", kindF32: "f32", kindF64: "f64", kindC64: "c64", kindC128: "c128", kindString: "str",
	kindBytes: "bytes", kindTime: "time", kindOpaque: "opaque", kindProto: "proto", kindCustom: "custom",
}

// node is a schema: the structure of an encoding, free of Go types.
type node struct {
	kind    kind
	size    int    // kindRaw, kindArray
	name    string // kindOpaque, kindProto, kindCustom
	version uint32 // kindCustom
	elem    *node
	key     *node // kindMap
	fields  []field
}

type field struct {
	name string
	node *node
}

// String is the schema's text; parse reads it back.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	switch n.kind {
	case kindRaw:
		b.WriteString("raw(" + strconv.Itoa(n.size) + ")")
	case kindArray:
		b.WriteString("[" + strconv.Itoa(n.size) + "]")
		n.elem.write(b)
	case kindList:
		b.WriteString("[]")
		n.elem.write(b)
	case kindMap:
		b.WriteString("map[")
		n.key.write(b)
		b.WriteString("]")
		n.elem.write(b)
	case kindOptional:
		b.WriteString("*")
		n.elem.write(b)
	case kindStruct, kindOneOf:
		n.writeFields(b)
	case kindOpaque, kindProto:
		b.WriteString(kindNames[n.kind] + "(" + strconv.Quote(n.name) + ")")
	case kindCustom:
		b.WriteString("custom(" + strconv.Quote(n.name) + "," + strconv.FormatUint(uint64(n.version), 10) + ")")
	default:
		b.WriteString(kindNames[n.kind])
	}
}

func (n *node) writeFields(b *strings.Builder) {
	if n.kind == kindOneOf {
		b.WriteString("oneof")
	}
	b.WriteString("{")
	for i, f := range n.fields {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(strconv.Quote(f.name) + ":")
		f.node.write(b)
	}
	b.WriteString("}")
}
