package codec

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"
)

// sliceHeader is a slice in memory; Data keeps its array alive.
type sliceHeader struct {
	Data     unsafe.Pointer
	Len, Cap int
}

// timeSize is the length of a time: seconds since the Unix epoch in eight bytes, nanoseconds in four.
const timeSize = 12

// room makes place for n bytes behind b[:used] and returns the whole buffer.
func room(b []byte, used, n int) []byte {
	if cap(b)-used < n {
		b = slices.Grow(b[:used], n)
	}
	return b[:cap(b)]
}

// encode appends the value at base. All scalars and length prefixes of the program are written without asking for
// room again: p.head bytes are kept free ahead of them.
func (p *program) encode(dst []byte, base unsafe.Pointer) ([]byte, error) {
	n := len(dst)
	b := room(dst, n, p.head)
	for i := range p.ops {
		o := &p.ops[i]
		q := unsafe.Add(base, o.off)
		switch o.code {
		case opI64:
			v := *(*int64)(q)
			x := uint64(v<<1) ^ uint64(v>>63)
			for x >= 0x80 { // putVarint, written out for the most frequent op
				b[n] = byte(x) | 0x80
				x >>= 7
				n++
			}
			b[n] = byte(x)
			n++
		case opString:
			s := *(*string)(q)
			n = putUvarint(b, n, uint64(len(s)))
			b = room(b, n, len(s)+p.head)
			n += copy(b[n:], s)
		case opU64:
			n = putUvarint(b, n, *(*uint64)(q))
		case opI32:
			n = putVarint(b, n, int64(*(*int32)(q)))
		case opU32:
			n = putUvarint(b, n, uint64(*(*uint32)(q)))
		case opF64:
			binary.LittleEndian.PutUint64(b[n:], math.Float64bits(*(*float64)(q)))
			n += 8
		case opBool, opU8:
			n = putUvarint(b, n, uint64(*(*uint8)(q)))
		case opTime:
			n = putTime(b, n, (*time.Time)(q))
		case opBytes:
			v := *(*[]byte)(q)
			if v == nil {
				n = putUvarint(b, n, 0)
				continue
			}
			n = putUvarint(b, n, uint64(len(v))+1)
			b = room(b, n, len(v)+p.head)
			n += copy(b[n:], v)
		case opRaw:
			n += copy(b[n:], unsafe.Slice((*byte)(q), o.n))
		case opF32:
			binary.LittleEndian.PutUint32(b[n:], math.Float32bits(*(*float32)(q)))
			n += 4
		case opI16:
			n = putVarint(b, n, int64(*(*int16)(q)))
		case opU16:
			n = putUvarint(b, n, uint64(*(*uint16)(q)))
		case opI8:
			n = putVarint(b, n, int64(*(*int8)(q)))
		default:
			var err error
			if b, err = o.encode(b[:n], q); err != nil {
				return nil, fmt.Errorf("%s: %w", p.names[i], err)
			}
			n = len(b)
			b = room(b, n, p.head)
		}
	}
	return b[:n], nil
}

func putTime(b []byte, n int, t *time.Time) int {
	binary.LittleEndian.PutUint64(b[n:], uint64(t.Unix()))
	binary.LittleEndian.PutUint32(b[n+8:], uint32(t.Nanosecond()))
	return n + timeSize
}

// encode appends the part at q by one of the rarer ops.
func (o *op) encode(b []byte, q unsafe.Pointer) ([]byte, error) {
	x := o.ext
	switch o.code {
	case opFixed:
		return x.sub.encodeAll(b, q, o.n, x.size)
	case opList:
		return x.encodeList(b, (*sliceHeader)(q))
	case opPtr:
		e := *(*unsafe.Pointer)(q)
		if e == nil {
			return append(b, 0), nil
		}
		return x.sub.encode(append(b, 1), e)
	case opMap:
		return x.encodeMap(b, q)
	case opOneOf:
		return x.encodeOneOf(b, q)
	case opOpaque:
		return prefixed(b, func(b []byte) ([]byte, error) { return appendOpaque(b, reflect.NewAt(x.typ, q).Interface()) })
	case opProto:
		m := reflect.NewAt(x.typ, q).Interface().(proto.Message)
		return prefixed(b, func(b []byte) ([]byte, error) {
			return proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
		})
	case opCustom:
		return prefixed(b, func(b []byte) ([]byte, error) { return x.custom.encode(b, q) })
	}
	return nil, fmt.Errorf("program of another schema cannot encode") // opSkip: Decoder does not export encoding
}

// encodeAll encodes count values that lie size bytes apart.
func (p *program) encodeAll(b []byte, q unsafe.Pointer, count int, size uintptr) (_ []byte, err error) {
	for i := range count { // no pointer behind the last one: it would lie in another object
		if b, err = p.encode(b, unsafe.Add(q, uintptr(i)*size)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (x *ext) encodeList(b []byte, h *sliceHeader) ([]byte, error) {
	if h.Data == nil {
		return append(b, 0), nil
	}
	b = binary.AppendUvarint(b, uint64(h.Len)+1)
	if x.pad {
		return append(b, make([]byte, h.Len)...), nil
	}
	return x.sub.encodeAll(b, h.Data, h.Len, x.size)
}

// encodeMap writes the entries in the order of their encodings, so that equal maps have equal bytes.
func (x *ext) encodeMap(b []byte, q unsafe.Pointer) (_ []byte, err error) {
	m := reflect.NewAt(x.typ, q).Elem()
	if m.IsNil() {
		return append(b, 0), nil
	}
	b = binary.AppendUvarint(b, uint64(m.Len())+1)
	if x.pad {
		return append(b, make([]byte, m.Len())...), nil
	}
	start := len(b)
	ends := make([]int, 0, m.Len())
	key, val := reflect.New(x.typ.Key()), reflect.New(x.typ.Elem())
	for it := m.MapRange(); it.Next(); {
		key.Elem().SetIterKey(it)
		val.Elem().SetIterValue(it)
		if b, err = x.key.encode(b, key.UnsafePointer()); err != nil {
			return nil, err
		}
		if b, err = x.sub.encode(b, val.UnsafePointer()); err != nil {
			return nil, err
		}
		ends = append(ends, len(b))
	}
	sortSpans(b, start, ends)
	return b, nil
}

// sortSpans puts the spans of b that begin at start and end at ends into ascending order.
func sortSpans(b []byte, start int, ends []int) {
	if len(ends) < 2 {
		return
	}
	tmp := slices.Clone(b[start:])
	spans := make([][]byte, len(ends))
	from := start
	for i, end := range ends {
		spans[i] = tmp[from-start : end-start]
		from = end
	}
	slices.SortFunc(spans, bytes.Compare)
	b = b[:start]
	for _, s := range spans {
		b = append(b, s...)
	}
}

func (x *ext) encodeOneOf(b []byte, q unsafe.Pointer) ([]byte, error) {
	v := reflect.NewAt(x.typ, q).Elem()
	if v.IsNil() {
		return append(b, 0), nil
	}
	v = v.Elem()
	i, ok := x.byType[v.Type()]
	if !ok {
		return nil, fmt.Errorf("%s: %s holds a %s, which is not among its registered variants", CodeNoCodec, x.typ, v.Type())
	}
	b = binary.AppendUvarint(b, uint64(i)+1)
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return x.cases[i].sub.encode(b, p.UnsafePointer())
}

func appendOpaque(b []byte, v any) ([]byte, error) {
	if a, ok := v.(encoding.BinaryAppender); ok {
		return a.AppendBinary(b)
	}
	enc, err := v.(encoding.BinaryMarshaler).MarshalBinary()
	return append(b, enc...), err
}

// prefixed appends what f appends, behind its length.
func prefixed(b []byte, f func([]byte) ([]byte, error)) ([]byte, error) {
	at := len(b)
	b, err := f(append(b, 0))
	if err != nil {
		return nil, err
	}
	size := len(b) - at - 1
	if size < 0x80 {
		b[at] = byte(size)
		return b, nil
	}
	var prefix [maxVarint]byte
	n := putUvarint(prefix[:], 0, uint64(size))
	b = append(b, prefix[1:n]...) // make room
	copy(b[at+n:], b[at+1:at+1+size])
	copy(b[at:], prefix[:n])
	return b, nil
}
