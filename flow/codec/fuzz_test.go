package codec

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
)

// everything has every form of encoding.
type everything struct {
	S  scalars
	N  nested
	M  maps
	T  times
	Sh []shape
	Ce celsius
}

func everythingCodec(t testing.TB) *Codec[everything] {
	r := shapes(t)
	if err := Register(r, celsiusCodec{2}); err != nil {
		t.Fatal(err)
	}
	return must(Of[everything](r))(t)
}

// allocated is what f allocates, in bytes.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// FuzzDecode: any bytes give a value or an error, with memory in proportion to the bytes; what decodes encodes, and
// the encoding is a fixed point.
func FuzzDecode(f *testing.F) {
	c := everythingCodec(f)
	p := new(int)
	pp := &p
	str := "x"
	for _, v := range []everything{{}, {
		S: scalars{A: 1 << 40, N: "name", M: 1.5}, Sh: []shape{square{1}, nil, &circle{2}},
		N: nested{Tags: []string{"a", ""}, Next: &kv{"k", 1}, Deep: pp, Pairs: []kv{{"a", 1}}, Sets: [][]int64{{1, 2}, nil}, Units: make([]struct{}, 2)},
		M: maps{Counts: map[string]int64{"a": 1}, ByKV: map[kv][]string{{"a", 1}: {"b"}}, Nested: map[int8]map[uint16]*string{1: {2: &str}}},
	}} {
		b, err := c.Append(nil, &v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{9}, b...))
	}
	f.Add([]byte{3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f})
	ns, ms, ts := must(Of[[]nested](nil))(f), must(Of[[]maps](nil))(f), must(Of[[]times](nil))(f)
	shs := must(Of[[]shape](shapes(f)))(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		switch rest := b[1:]; b[0] {
		case 0:
			stable(t, ns, rest)
		case 1:
			stable(t, ms, rest)
		case 2:
			stable(t, ts, rest)
		case 3:
			stable(t, shs, rest)
		default:
			stable(t, c, rest)
		}
	})
}

func stable[T any](t *testing.T, c *Codec[T], b []byte) {
	var v, w T
	var err error
	if got := allocated(func() { _, err = c.Decode(b, &v) }); got > 1<<20+200*uint64(len(b)) {
		t.Fatalf("%d bytes made the decoder allocate %d", len(b), got)
	}
	if err != nil {
		return
	}
	once, err := c.Append(nil, &v)
	if err != nil {
		t.Fatalf("decoded value does not encode: %v", err)
	}
	if rest, err := c.Decode(once, &w); err != nil || len(rest) > 0 {
		t.Fatalf("%d bytes over, %v", len(rest), err)
	}
	if twice, err := c.Append(nil, &w); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("encoding is not stable: %v", err)
	}
}

// FuzzDecodeRecords: a frame's payload is refused or read completely.
func FuzzDecodeRecords(f *testing.F) {
	c := must(Of[kv](nil))(f)
	in := &element.Batch[kv]{}
	in.Append(kv{"a", 1}, 5)
	in.Append(kv{"bb", -1}, element.MaxTime)
	f.Add(must(appendBatch(c, nil, in))(f))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		out := &element.Batch[kv]{}
		if decodeBatch(c, b, out) != nil {
			if out.Len() != 0 || len(out.Times) != 0 {
				t.Fatal("records of a refused batch were left behind")
			}
			return
		}
		again := &element.Batch[kv]{}
		if err := decodeBatch(c, must(appendBatch(c, nil, out))(t), again); err != nil || again.Len() != out.Len() {
			t.Fatalf("%d records became %d: %v", out.Len(), again.Len(), err)
		}
	})
}

// FuzzSchema: any text is refused or is a schema whose text reads back, and a decoder compiled from it is safe.
func FuzzSchema(f *testing.F) {
	c := everythingCodec(f)
	v := everything{}
	f.Add(c.Schema(), must(c.Append(nil, &v))(f))
	f.Add(`{"S":{"A":i32},"X":[5]map[str]oneof{"a":[]raw(3),"b":custom("c",7)}}`, []byte{1, 2, 3, 4, 5, 6})
	r := shapes(f)
	if err := Register(r, celsiusCodec{2}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, b []byte) {
		n, err := parse(text)
		if err != nil {
			return
		}
		again, err := parse(n.String())
		if err != nil || again.String() != n.String() {
			t.Fatalf("%s reads back as %v, %v", n, again, err)
		}
		end, err := n.skip(b, 0)
		if err == nil && (end < 0 || end > len(b)) {
			t.Fatalf("skipped to %d of %d", end, len(b))
		}
		m, err := Migrating[everything](text, r)
		if err != nil {
			return
		}
		var got everything
		rest, derr := m.Decode(b, &got)
		if derr == nil && err == nil && len(b)-len(rest) != end {
			t.Fatalf("decoder took %d bytes, skipping %d", len(b)-len(rest), end)
		}
	})
}
