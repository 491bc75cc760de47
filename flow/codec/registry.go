package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// Custom is a user's encoding of T.
type Custom[T any] interface {
	// Name identifies the encoding in stored bytes; it must not change.
	Name() string
	// Version is that of the bytes that Append writes.
	Version() uint32
	Append(dst []byte, v T) ([]byte, error)
	// Decode reads what this or an older Version wrote. src is exactly one encoding and must not be kept.
	Decode(src []byte, version uint32) (T, error)
}

// Registry holds the codecs and interface variants of one pipeline.
type Registry struct {
	customs  map[reflect.Type]*custom
	variants map[reflect.Type][]variant // by name
}

// custom is a Custom[T] behind pointers to T.
type custom struct {
	name    string
	version uint32
	encode  func(dst []byte, p unsafe.Pointer) ([]byte, error)
	decode  func(src []byte, version uint32, p unsafe.Pointer) error
}

type variant struct {
	name string
	typ  reflect.Type
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry {
	return &Registry{customs: map[reflect.Type]*custom{}, variants: map[reflect.Type][]variant{}}
}

// Register makes c the codec of T.
func Register[T any](r *Registry, c Custom[T]) error {
	t := reflect.TypeFor[T]()
	if c.Name() == "" {
		return &TypeError{CodeNoCodec, t.String(), "its registered codec has an empty name", ""}
	}
	if old := r.customs[t]; old != nil {
		return &TypeError{CodeNoCodec, t.String(), fmt.Sprintf("two codecs are registered: %q and %q", old.name, c.Name()), "keep one"}
	}
	r.customs[t] = &custom{
		name: c.Name(), version: c.Version(),
		encode: func(dst []byte, p unsafe.Pointer) ([]byte, error) { return c.Append(dst, *(*T)(p)) },
		decode: func(src []byte, version uint32, p unsafe.Pointer) (err error) {
			*(*T)(p), err = c.Decode(src, version)
			return err
		},
	}
	return nil
}

// Variant lets values of interface type I hold a T, under a name that must not change.
func Variant[I, T any](r *Registry, name string) error {
	i, t := reflect.TypeFor[I](), reflect.TypeFor[T]()
	fault := func(format string, args ...any) error {
		return &TypeError{CodeNoCodec, i.String(), fmt.Sprintf(format, args...), ""}
	}
	switch {
	case i.Kind() != reflect.Interface:
		return fault("variants are for interfaces, this is a %s", i.Kind())
	case t.Kind() == reflect.Interface || !t.Implements(i):
		return fault("variant %q: %s is no concrete type that implements it", name, t)
	case name == "":
		return fault("variant %s has an empty name", t)
	}
	for _, v := range r.variants[i] {
		if v.name == name || v.typ == t {
			return fault("variant %q (%s) clashes with %q (%s)", name, t, v.name, v.typ)
		}
	}
	vs := append(r.variants[i], variant{name, t})
	slices.SortFunc(vs, func(a, b variant) int { return strings.Compare(a.name, b.name) })
	r.variants[i] = vs
	return nil
}

func (r *Registry) custom(t reflect.Type) *custom {
	if r == nil {
		return nil
	}
	return r.customs[t]
}

func (r *Registry) variantsOf(t reflect.Type) []variant {
	if r == nil {
		return nil
	}
	return r.variants[t]
}
