package codec

import (
	"encoding/binary"
	"reflect"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// MaxParallelism is the largest number of key groups of a job.
const MaxParallelism = 1 << 15

// KeyGroup is the key group of a key with hash h, in [0, maxParallelism). It takes the high half of the hash, so
// that tables can index with the low bits: with key groups from the same bits a table of one subtask would use only
// every p-th slot.
func KeyGroup(h uint64, maxParallelism int) int {
	return int((h >> 32) * uint64(maxParallelism) >> 32)
}

// Subtask owns the key group, in [0, parallelism). Its key groups are contiguous.
func Subtask(keyGroup, parallelism, maxParallelism int) int {
	return keyGroup * parallelism / maxParallelism
}

// Mix is the 64-bit finaliser of MurmurHash3: the hash of an integer key.
func Mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Hasher compiles the fixed hash of K, the same in every process, release and architecture: integers by Mix, strings
// and byte arrays by XXH64, structs and other arrays by XXH64 over the frozen key encoding. A K that contains a
// float, pointer, interface or channel is E007: such keys compare by something that does not survive a process, or
// not at all (NaN).
func Hasher[K comparable]() (func(K) uint64, error) {
	t := reflect.TypeFor[K]()
	ops, err := keyOps(nil, t, 0, typeName(t))
	if err != nil {
		return nil, err
	}
	if t.Kind() != reflect.Struct && (t.Kind() != reflect.Array || t.Elem().Kind() == reflect.Uint8) {
		return scalarHash[K](ops[0]), nil
	}
	if n, ok := fixedKey(ops); ok && n == int(t.Size()) {
		// The memory is the encoding (little-endian, no gaps): hash it in place.
		return func(k K) uint64 {
			return xxhash.Sum64(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)))
		}, nil
	}
	return func(k K) uint64 {
		var buf [128]byte
		return xxhash.Sum64(appendKey(buf[:0], ops, unsafe.Pointer(&k)))
	}, nil
}

// keyOp is one part of a key: n bytes at off, or a string.
type keyOp struct {
	off    uintptr
	n      int // size in bytes of an integer, boolean or byte array
	kind   reflect.Kind
	signed bool
}

func keyOps(ops []keyOp, t reflect.Type, off uintptr, path string) ([]keyOp, error) {
	switch k := t.Kind(); k {
	case reflect.Bool:
		return append(ops, keyOp{off: off, n: 1, kind: k}), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return append(ops, keyOp{off: off, n: int(t.Size()), kind: reflect.Int64, signed: true}), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return append(ops, keyOp{off: off, n: int(t.Size()), kind: reflect.Uint64}), nil
	case reflect.String:
		return append(ops, keyOp{off: off, kind: k}), nil
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return append(ops, keyOp{off: off, n: t.Len(), kind: k}), nil
		}
		return arrayOps(ops, t, off, path)
	case reflect.Struct:
		if t == timeType {
			return nil, &TypeError{CodeBadKey, path, "time.Time is not a key: equal instants differ by location and monotonic clock", "use flow.Time"}
		}
		return structOps(ops, t, off, path)
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return nil, &TypeError{CodeBadKey, path, t.String() + " is not a key: NaN differs from itself and -0 equals 0", "use an integer, or strconv.FormatFloat"}
	default:
		return nil, &TypeError{CodeBadKey, path, t.String() + " is not a key: its identity does not survive a process", "key by the value behind it"}
	}
}

// maxKeyArray bounds arrays inside keys, whose elements are unrolled.
const maxKeyArray = 256

func arrayOps(ops []keyOp, t reflect.Type, off uintptr, path string) (_ []keyOp, err error) {
	if t.Len() > maxKeyArray {
		return nil, &TypeError{CodeBadKey, path, "array is too long for a key", "key by a digest of it"}
	}
	for i := range t.Len() {
		if ops, err = keyOps(ops, t.Elem(), off+uintptr(i)*t.Elem().Size(), path+"[]"); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

func structOps(ops []keyOp, t reflect.Type, off uintptr, path string) (_ []keyOp, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" { // == ignores blank fields
			continue
		}
		if ops, err = keyOps(ops, f.Type, off+f.Offset, path+"."+f.Name); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// fixedKey is the number of bytes that ops encode to, if memory and encoding agree for each of them.
func fixedKey(ops []keyOp) (n int, ok bool) {
	if !littleEndian {
		return 0, false
	}
	for _, o := range ops {
		isWord := (o.kind == reflect.Int64 || o.kind == reflect.Uint64) && o.n == 8
		if !isWord && o.kind != reflect.Bool && o.kind != reflect.Array || o.off != uintptr(n) {
			return 0, false
		}
		n += o.n
	}
	return n, true
}

func scalarHash[K comparable](o keyOp) func(K) uint64 {
	switch o.kind {
	case reflect.String:
		return func(k K) uint64 { return xxhash.Sum64String(*(*string)(unsafe.Pointer(&k))) }
	case reflect.Array:
		return func(k K) uint64 {
			return xxhash.Sum64(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)))
		}
	}
	switch {
	case o.n == 8:
		return func(k K) uint64 { return Mix(*(*uint64)(unsafe.Pointer(&k))) }
	case o.n == 4 && o.signed:
		return func(k K) uint64 { return Mix(uint64(int64(*(*int32)(unsafe.Pointer(&k))))) }
	case o.n == 4:
		return func(k K) uint64 { return Mix(uint64(*(*uint32)(unsafe.Pointer(&k)))) }
	}
	return func(k K) uint64 { return Mix(keyWord(o, unsafe.Pointer(&k))) }
}

// keyWord is an integer or boolean, extended to 64 bits by its sign.
func keyWord(o keyOp, p unsafe.Pointer) uint64 {
	switch {
	case o.n == 8:
		return *(*uint64)(p)
	case o.n == 4 && o.signed:
		return uint64(int64(*(*int32)(p)))
	case o.n == 4:
		return uint64(*(*uint32)(p))
	case o.n == 2 && o.signed:
		return uint64(int64(*(*int16)(p)))
	case o.n == 2:
		return uint64(*(*uint16)(p))
	case o.signed:
		return uint64(int64(*(*int8)(p)))
	}
	return uint64(*(*uint8)(p))
}

// appendKey is the frozen key encoding: integers as eight little-endian bytes, booleans as one, byte arrays as they
// are, strings behind their length as eight bytes.
func appendKey(b []byte, ops []keyOp, base unsafe.Pointer) []byte {
	for i := range ops {
		o := &ops[i]
		p := unsafe.Add(base, o.off)
		switch o.kind {
		case reflect.String:
			s := *(*string)(p)
			b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
			b = append(b, s...)
		case reflect.Array:
			b = append(b, unsafe.Slice((*byte)(p), o.n)...)
		case reflect.Bool:
			b = append(b, *(*uint8)(p))
		default:
			b = binary.LittleEndian.AppendUint64(b, keyWord(*o, p))
		}
	}
	return b
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1
)

// typeName is the name by which errors call t.
func typeName(t reflect.Type) string {
	if t.Name() != "" {
		return t.Name()
	}
	return t.String()
}
