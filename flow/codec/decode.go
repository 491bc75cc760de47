package codec

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"
)

func corrupt(name, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", name, ErrCorrupt, fmt.Sprintf(format, args...))
}

// decode reads the value at src[n:] into base and returns the position behind it.
func (p *program) decode(src []byte, n int, base unsafe.Pointer) (int, error) {
	if p.clear {
		reflect.NewAt(p.typ, base).Elem().SetZero()
	}
	if len(src)-n < p.min {
		return 0, corrupt(p.typ.String(), "%d bytes left, at least %d needed", len(src)-n, p.min)
	}
	for i := range p.ops {
		o := &p.ops[i]
		q := unsafe.Add(base, o.off)
		switch o.code {
		case opI64:
			*(*int64)(q), n = varint(src, n)
		case opString:
			var size uint64
			if size, n = uvarint(src, n); n >= 0 {
				if size > uint64(len(src)-n) {
					return 0, corrupt(p.names[i], "length %d, %d bytes left", size, len(src)-n)
				}
				*(*string)(q) = string(src[n : n+int(size)])
				n += int(size)
			}
		case opU64:
			*(*uint64)(q), n = uvarint(src, n)
		case opF64:
			if len(src)-n < 8 {
				return 0, corrupt(p.names[i], "float cut off")
			}
			*(*float64)(q) = math.Float64frombits(binary.LittleEndian.Uint64(src[n:]))
			n += 8
		case opTime:
			if n = getTime(src, n, (*time.Time)(q)); n < 0 {
				return 0, corrupt(p.names[i], "bad time")
			}
		default:
			var err error
			if n, err = o.decode(src, n, q); err != nil {
				return 0, fmt.Errorf("%s: %w", p.names[i], err)
			}
		}
		if n < 0 {
			return 0, corrupt(p.names[i], "bad number")
		}
	}
	return n, nil
}

// getTime reads a time in UTC; the result is negative if there is none.
func getTime(src []byte, n int, t *time.Time) int {
	if len(src)-n < timeSize {
		return -1
	}
	sec, nsec := binary.LittleEndian.Uint64(src[n:]), binary.LittleEndian.Uint32(src[n+8:])
	if nsec >= 1e9 {
		return -1
	}
	*t = time.Unix(int64(sec), int64(nsec)).UTC()
	return n + timeSize
}

var errNumber = fmt.Errorf("%w: number out of range", ErrCorrupt)

// decode reads the part at q by one of the rarer ops.
func (o *op) decode(src []byte, n int, q unsafe.Pointer) (int, error) {
	switch o.code {
	case opBool, opU8, opU16, opU32:
		return o.decodeUint(src, n, q)
	case opI8, opI16, opI32:
		return o.decodeInt(src, n, q)
	case opF32, opRaw:
		return o.decodeRaw(src, n, q)
	case opBytes:
		size, n, err := length(src, n)
		if err != nil || size < 0 {
			*(*[]byte)(q) = nil
			return n, err
		}
		*(*[]byte)(q) = append(make([]byte, 0, size), src[n:n+size]...)
		return n + size, nil
	}
	return o.ext.decode(o, src, n, q)
}

func (o *op) decodeUint(src []byte, n int, q unsafe.Pointer) (int, error) {
	x, n := uvarint(src, n)
	limit := uint64(math.MaxUint8)
	switch o.code {
	case opBool:
		limit = 1
		*(*bool)(q) = x == 1
	case opU8:
		*(*uint8)(q) = uint8(x)
	case opU16:
		limit = math.MaxUint16
		*(*uint16)(q) = uint16(x)
	case opU32:
		limit = math.MaxUint32
		*(*uint32)(q) = uint32(x)
	}
	if n < 0 || x > limit {
		return 0, errNumber
	}
	return n, nil
}

func (o *op) decodeInt(src []byte, n int, q unsafe.Pointer) (int, error) {
	x, n := varint(src, n)
	var got int64
	switch o.code {
	case opI8:
		*(*int8)(q) = int8(x)
		got = int64(int8(x))
	case opI16:
		*(*int16)(q) = int16(x)
		got = int64(int16(x))
	case opI32:
		*(*int32)(q) = int32(x)
		got = int64(int32(x))
	}
	if n < 0 || got != x {
		return 0, errNumber
	}
	return n, nil
}

func (o *op) decodeRaw(src []byte, n int, q unsafe.Pointer) (int, error) {
	size := o.n
	if o.code == opF32 {
		size = 4
	}
	if len(src)-n < size {
		return 0, fmt.Errorf("%w: %d bytes left, %d needed", ErrCorrupt, len(src)-n, size)
	}
	if o.code == opF32 {
		*(*float32)(q) = math.Float32frombits(binary.LittleEndian.Uint32(src[n:]))
	} else {
		copy(unsafe.Slice((*byte)(q), size), src[n:])
	}
	return n + size, nil
}

// length reads the length of something that may be nil, in units of at least one byte each; -1 is nil.
func length(src []byte, n int) (size, next int, err error) {
	x, n := uvarint(src, n)
	if n < 0 {
		return -1, 0, errNumber
	}
	if x > uint64(len(src)-n)+1 {
		return -1, 0, fmt.Errorf("%w: length %d, %d bytes left", ErrCorrupt, x-1, len(src)-n)
	}
	return int(x) - 1, n, nil
}

func (x *ext) decode(o *op, src []byte, n int, q unsafe.Pointer) (int, error) {
	switch o.code {
	case opFixed:
		return x.sub.decodeAll(src, n, q, o.n, x.size)
	case opList:
		return x.decodeList(src, n, (*sliceHeader)(q))
	case opPtr:
		return x.decodePtr(src, n, (*unsafe.Pointer)(q))
	case opMap:
		return x.decodeMap(src, n, q)
	case opOneOf:
		return x.decodeOneOf(src, n, q)
	case opSkip:
		return x.skip.skip(src, n)
	}
	size, n := uvarint(src, n)
	if n < 0 || size > uint64(len(src)-n) {
		return 0, fmt.Errorf("%w: bad length", ErrCorrupt)
	}
	part := src[n : n+int(size) : n+int(size)]
	var err error
	switch o.code {
	case opOpaque:
		v := reflect.NewAt(x.typ, q)
		v.Elem().SetZero() // UnmarshalBinary may write into what it finds
		err = v.Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(part)
	case opProto:
		err = proto.Unmarshal(part, reflect.NewAt(x.typ, q).Interface().(proto.Message))
	case opCustom:
		err = x.custom.decode(part, x.version, q)
	}
	if err != nil {
		return 0, &CustomError{err}
	}
	return n + int(size), nil
}

// decodeAll reads count values into places that lie size bytes apart.
func (p *program) decodeAll(src []byte, n int, q unsafe.Pointer, count int, size uintptr) (_ int, err error) {
	for i := range count { // no pointer behind the last one: it would lie in another object
		if n, err = p.decode(src, n, unsafe.Add(q, uintptr(i)*size)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// fits reports that count encodings of at least least bytes each can lie in the bytes left.
func fits(count, least, left int) bool { return least <= 1 || count <= left/least }

func (x *ext) decodeList(src []byte, n int, h *sliceHeader) (int, error) {
	count, n, err := length(src, n)
	if err != nil || count < 0 {
		*h = sliceHeader{}
		return n, err
	}
	if !fits(count, x.sub.min, len(src)-n) {
		return 0, fmt.Errorf("%w: %d elements in %d bytes", ErrCorrupt, count, len(src)-n)
	}
	data := reflect.MakeSlice(x.typ, count, count).UnsafePointer()
	*h = sliceHeader{data, count, count}
	if x.pad {
		return n + count, nil
	}
	return x.sub.decodeAll(src, n, data, count, x.size)
}

func (x *ext) decodePtr(src []byte, n int, q *unsafe.Pointer) (int, error) {
	*q = nil
	if n >= len(src) || src[n] > 1 {
		return 0, fmt.Errorf("%w: bad pointer flag", ErrCorrupt)
	}
	if src[n] == 0 {
		return n + 1, nil
	}
	e := reflect.New(x.typ.Elem()).UnsafePointer()
	*q = e
	return x.sub.decode(src, n+1, e)
}

// presize bounds the memory that a map gets before its entries have been read, in entries.
const presize = 1024

func (x *ext) decodeMap(src []byte, n int, q unsafe.Pointer) (int, error) {
	m := reflect.NewAt(x.typ, q).Elem()
	m.SetZero()
	count, n, err := length(src, n)
	if err != nil || count < 0 {
		return n, err
	}
	if !fits(count, x.key.min+x.sub.min, len(src)-n) {
		return 0, fmt.Errorf("%w: %d entries in %d bytes", ErrCorrupt, count, len(src)-n)
	}
	m.Set(reflect.MakeMapWithSize(x.typ, min(count, presize)))
	key, val := reflect.New(x.typ.Key()), reflect.New(x.typ.Elem())
	for range count {
		if x.pad {
			n++
		}
		key.Elem().SetZero()
		if n, err = x.key.decode(src, n, key.UnsafePointer()); err != nil {
			return 0, err
		}
		val.Elem().SetZero()
		if n, err = x.sub.decode(src, n, val.UnsafePointer()); err != nil {
			return 0, err
		}
		m.SetMapIndex(key.Elem(), val.Elem())
	}
	return n, nil
}

func (x *ext) decodeOneOf(src []byte, n int, q unsafe.Pointer) (int, error) {
	v := reflect.NewAt(x.typ, q).Elem()
	v.SetZero()
	i, n := uvarint(src, n)
	if n < 0 || i > uint64(len(x.cases)) {
		return 0, fmt.Errorf("%w: bad variant", ErrCorrupt)
	}
	if i == 0 {
		return n, nil
	}
	c := &x.cases[i-1]
	if c.sub == nil {
		return 0, fmt.Errorf("%s: stored variant %q of %s is not registered any more", CodeMigration, c.name, x.typ)
	}
	p := reflect.New(c.typ)
	n, err := c.sub.decode(src, n, p.UnsafePointer())
	if err != nil {
		return 0, err
	}
	v.Set(p.Elem())
	return n, nil
}
