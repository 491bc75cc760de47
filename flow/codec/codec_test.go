package codec

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
)

type (
	name     string
	level    uint8
	base     struct{ ID int64 }
	position struct{ X, Y float64 }
	kv       struct {
		Key   string
		Value int64
	}
	scalars struct {
		A int
		B int8
		C int16
		D int32
		E int64
		F uint
		G uint8
		H uint16
		I uint32
		J uint64
		K bool
		L float32
		M float64
		N name
		O level
		P time.Duration
		Q element.Time
	}
	nested struct {
		base
		Pos    position
		Tags   []string
		Levels []level
		Raw    []byte
		Digest [20]byte
		Three  [3]int32
		Many   [9]position
		Next   *kv
		Deep   **int
		Pairs  []kv
		Sets   [][]int64
		Empty  struct{}
		Units  []struct{}
	}
	maps struct {
		Counts map[string]int64
		ByKV   map[kv][]string
		Bools  map[bool]struct{}
		Nested map[int8]map[uint16]*string
		Unit   map[struct{}]struct{}
	}
	stamped struct {
		time.Time // would bring its MarshalBinary along
		N         int
	}
	times struct {
		At      time.Time
		Addr    netip.Addr
		Stamp   *timestamppb.Timestamp
		Stamped stamped
	}
)

// tb is what testing.TB and rapid.T share.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func roundTrip[T any](t tb, c *Codec[T], v T, opts ...cmp.Option) []byte {
	t.Helper()
	b, err := c.Append([]byte("prefix"), &v)
	if err != nil {
		t.Fatal(err)
	}
	if string(b[:6]) != "prefix" {
		t.Fatalf("Append changed what was there: %q", b[:6])
	}
	b = append(b[6:], "rest"...)
	var got T
	rest, err := c.Decode(b, &got)
	if err != nil {
		t.Fatalf("decode %#v: %v", v, err)
	}
	if string(rest) != "rest" {
		t.Fatalf("rest is %q", rest)
	}
	if d := cmp.Diff(v, got, opts...); d != "" {
		t.Fatalf("changed on the way (-in +out):\n%s", d)
	}
	enc := b[:len(b)-4]
	for i := range enc {
		var part T
		if _, err := c.Decode(enc[:i:i], &part); err == nil {
			t.Fatalf("decoded from %d of %d bytes", i, len(enc))
		}
	}
	return enc
}

var exact = []cmp.Option{
	cmp.Exporter(func(reflect.Type) bool { return true }), // unexported structs too: nil and empty are not the same
	cmpopts.EquateNaNs(),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b *timestamppb.Timestamp) bool { return proto.Equal(a, b) }),
}

func property[T any](t *testing.T) {
	t.Helper()
	c := must(Of[T](nil))(t)
	gen := rapid.Make[T]()
	rapid.Check(t, func(rt *rapid.T) {
		v := gen.Draw(rt, "value")
		roundTrip(rt, c, v, exact...)
	})
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestRoundTripKeepsEveryField(t *testing.T) {
	t.Run("scalars", property[scalars])
	t.Run("nested", property[nested])
	t.Run("maps", property[maps])
	t.Run("int", property[int])
	t.Run("string", property[string])
	t.Run("bytes", property[[]byte])
	t.Run("pointer", property[*kv])
	t.Run("float", property[float64])
}

func TestRoundTripOfLimits(t *testing.T) {
	c := must(Of[scalars](nil))(t)
	roundTrip(t, c, scalars{math.MinInt, math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64, 0, 0, 0, 0, 0, false,
		-math.MaxFloat32, math.Inf(-1), "", 0, math.MinInt64, element.MinTime}, exact...)
	roundTrip(t, c, scalars{math.MaxInt, math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxInt64, math.MaxUint, math.MaxUint8,
		math.MaxUint16, math.MaxUint32, math.MaxUint64, true, float32(math.NaN()), math.Copysign(0, -1), "\x00\xff", 255,
		math.MaxInt64, element.MaxTime}, exact...)
	for shift := range 64 {
		for _, d := range []int64{-1, 0, 1} {
			x := int64(1)<<shift + d
			roundTrip(t, must(Of[int64](nil))(t), x)
			roundTrip(t, must(Of[int64](nil))(t), -x)
			roundTrip(t, must(Of[uint64](nil))(t), uint64(x))
		}
	}
}

func TestTimeKeepsTheInstantInUTC(t *testing.T) {
	c := must(Of[times](nil))(t)
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("x", 3600)),
		time.Date(-4000, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(math.MaxInt64>>2, 0)} {
		v := times{At: at, Addr: netip.MustParseAddr("2001:db8::1"), Stamp: timestamppb.New(time.Unix(5, 6)), Stamped: stamped{at, 7}}
		roundTrip(t, c, v, exact...)
		b, err := c.Append(nil, &v)
		if err != nil {
			t.Fatal(err)
		}
		var got times
		if _, err := c.Decode(b, &got); err != nil {
			t.Fatal(err)
		}
		if got.At != at.UTC().Round(0) {
			t.Errorf("%v became %#v", at, got.At)
		}
	}
}

func TestNilAndEmptyStayDifferent(t *testing.T) {
	c := must(Of[nested](nil))(t)
	roundTrip(t, c, nested{}, exact...)
	zero := 0
	p := &zero
	roundTrip(t, c, nested{Tags: []string{}, Raw: []byte{}, Pairs: []kv{}, Sets: [][]int64{nil, {}}, Deep: &p, Next: &kv{}, Units: make([]struct{}, 3)}, exact...)
	roundTrip(t, must(Of[maps](nil))(t), maps{Counts: map[string]int64{}, Unit: map[struct{}]struct{}{{}: {}}}, exact...)
}

func TestEqualMapsHaveEqualBytes(t *testing.T) {
	c := must(Of[map[string]float64](nil))(t)
	var first []byte
	for range 20 {
		m := map[string]float64{}
		for i := range 50 {
			m[fmt.Sprint(i)] = float64(i)
		}
		b := must(c.Append(nil, &m))(t)
		if first != nil && string(b) != string(first) {
			t.Fatal("two encodings of the same map")
		}
		first = b
	}
	// NaN is a key as often as it is put, and survives as often.
	f := must(Of[map[float64]int](nil))(t)
	m := map[float64]int{math.NaN(): 1}
	m[math.NaN()] = 2
	b := must(f.Append(nil, &m))(t)
	var got map[float64]int
	if _, err := f.Decode(b, &got); err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestDecodedValuesDoNotPointIntoTheFrame(t *testing.T) {
	type rec struct {
		S string
		B []byte
		L []string
		M map[string]string
		A netip.Addr
	}
	c := must(Of[rec](nil))(t)
	in := rec{"string", []byte("bytes"), []string{"list"}, map[string]string{"k": "v"}, netip.MustParseAddr("10.0.0.1")}
	b := must(c.Append(nil, &in))(t)
	var got rec
	if _, err := c.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if d := cmp.Diff(in, got, exact...); d != "" {
		t.Fatal(d)
	}
}

func TestDecodeOverwritesWhatWasThere(t *testing.T) {
	type rec struct {
		L []int64
		P *kv
		M map[string]int
		S string
		I int
		X []int `flow:"-"`
	}
	c := must(Of[rec](nil))(t)
	var empty rec
	b := must(c.Append(nil, &empty))(t)
	shared := []int64{1, 2, 3}
	got := rec{L: shared, P: &kv{"k", 1}, M: map[string]int{"a": 1}, S: "s", I: 1, X: []int{1}}
	if _, err := c.Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(empty, got); d != "" {
		t.Fatal(d)
	}
	one := rec{L: []int64{9}}
	got = rec{L: shared}
	if _, err := c.Decode(must(c.Append(nil, &one))(t), &got); err != nil {
		t.Fatal(err)
	}
	if shared[0] != 1 {
		t.Fatal("decoding wrote into a slice that others may hold")
	}
}

func TestBatchKeepsRecordsAndTimes(t *testing.T) {
	c := must(Of[kv](nil))(t)
	rapid.Check(t, func(rt *rapid.T) {
		in := &element.Batch[kv]{Vals: rapid.SliceOf(rapid.Make[kv]()).Draw(rt, "values")}
		for range in.Vals {
			in.Times = append(in.Times, element.Time(rapid.Int64().Draw(rt, "time")))
		}
		b, err := appendBatch(c, nil, in)
		if err != nil {
			rt.Fatal(err)
		}
		out := &element.Batch[kv]{}
		out.Append(kv{"first", 1}, 1)
		if err := decodeBatch(c, b, out); err != nil {
			rt.Fatal(err)
		}
		if out.Vals[0] != (kv{"first", 1}) || out.Times[0] != 1 {
			rt.Fatal("DecodeRecords changed what was there")
		}
		if d := cmp.Diff(in, &element.Batch[kv]{Vals: out.Vals[1:], Times: out.Times[1:]}, cmpopts.EquateEmpty()); d != "" {
			rt.Fatal(d)
		}
		if err := decodeBatch(c, append(b, 0), out); err == nil {
			rt.Fatal("a byte too many was accepted")
		}
		if len(b) > 1 {
			if err := decodeBatch(c, b[:len(b)-1], out); err == nil {
				rt.Fatal("a byte too few was accepted")
			}
		}
		if out.Len() != in.Len()+1 {
			rt.Fatalf("a failed DecodeRecords left %d records, had %d", out.Len(), in.Len()+1)
		}
	})
}

func TestWhatCannotBeEncodedIsNamedWithItsPath(t *testing.T) {
	type recursive struct {
		Children []recursive
	}
	type hidden struct{ secret int }
	_ = hidden{}.secret
	check := func(want string, err error) {
		t.Helper()
		var te *TypeError
		if !errors.As(err, &te) || te.Code != CodeNoCodec {
			t.Errorf("%s: got %v, want an E008", want, err)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to contain %q", err, want)
		}
	}
	check("Items[].Done: chan int", errOf[struct {
		Items []struct{ Done chan int }
	}]())
	check("func()", errOf[func()]())
	check("hidden.secret: unexported", errOf[hidden]())
	check("[key].secret", errOf[map[hidden]int]())
	check("recursive.Children[]: type codec.recursive contains itself", errOf[recursive]())
	check("interface error has no registered variants", errOf[struct{ Err error }]())
	check("uintptr", errOf[struct{ P uintptr }]())
	check("unexported", errOf[big.Int]())
	check("unexported", errOf[struct{ *base }]())
	check("same name", errOf[struct {
		A int
		B int `flow:"A"`
	}]())
	check("use a slice", errOf[[maxArray + 1]int]())
}

func errOf[T any]() error {
	_, err := Of[T](nil)
	return err
}

func TestTagLeavesOutAndRenames(t *testing.T) {
	type rec struct {
		New  int      `flow:"Old"`
		Lock chan int `flow:"-"`
		_    int
	}
	c := must(Of[rec](nil))(t)
	if got, want := c.Schema(), `{"Old":i64}`; got != want {
		t.Errorf("schema is %s, want %s", got, want)
	}
}

func TestSchemaIsStructural(t *testing.T) {
	type a struct {
		X name
		Y []level
	}
	type b struct {
		X string
		Y []byte
	}
	if x, y := must(Of[a](nil))(t).Schema(), must(Of[b](nil))(t).Schema(); x != y {
		t.Errorf("same structure, other schema: %s, %s", x, y)
	}
	want := `{"base":{"ID":i64},"Pos":{"X":f64,"Y":f64},"Tags":[]str,"Levels":bytes,"Raw":bytes,"Digest":raw(20),"Three":[3]i32,` +
		`"Many":[9]{"X":f64,"Y":f64},"Next":*{"Key":str,"Value":i64},"Deep":**i64,"Pairs":[]{"Key":str,"Value":i64},"Sets":[][]i64,"Empty":{},"Units":[]{}}`
	if got := must(Of[nested](nil))(t).Schema(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = `{"At":time,"Addr":opaque("net/netip.Addr"),"Stamp":*proto("google.protobuf.Timestamp"),"Stamped":{"Time":time,"N":i64}}`
	if got := must(Of[times](nil))(t).Schema(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFlat(t *testing.T) {
	for _, c := range []struct {
		flat bool
		got  bool
	}{
		{true, must(Of[scalars](nil))(t).Flat()},
		{true, must(Of[bid](nil))(t).Flat()},
		{true, must(Of[[4]kv](nil))(t).Flat()},
		{false, must(Of[nested](nil))(t).Flat()},
		{false, must(Of[[]byte](nil))(t).Flat()},
		{false, must(Of[struct{ P *int }](nil))(t).Flat()},
		{false, must(Of[struct {
			M map[string]int `flow:"-"`
		}](nil))(t).Flat()},
	} {
		if c.flat != c.got {
			t.Errorf("got flat %v, want %v", c.got, c.flat)
		}
	}
}

type shape interface{ Area() float64 }
type square struct{ Side float64 }
type circle struct{ R float64 }

func (s square) Area() float64  { return s.Side * s.Side }
func (c *circle) Area() float64 { return 3 * c.R * c.R }

func shapes(t testing.TB) *Registry {
	r := NewRegistry()
	for _, err := range []error{Variant[shape, square](r, "square"), Variant[shape, *circle](r, "circle")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestVariantsOfAnInterface(t *testing.T) {
	r := shapes(t)
	c := must(Of[[]shape](r))(t)
	if got, want := c.Schema(), `[]oneof{"circle":*{"R":f64},"square":{"Side":f64}}`; got != want {
		t.Errorf("schema is %s, want %s", got, want)
	}
	roundTrip(t, c, []shape{square{2}, nil, &circle{3}, (*circle)(nil)}, exact...)
	bad := []shape{&square{1}}
	if _, err := c.Append(nil, &bad); err == nil || !strings.Contains(err.Error(), "*codec.square") {
		t.Errorf("an unregistered variant was encoded: %v", err)
	}
	for _, err := range []error{Variant[shape, square](r, "again"), Variant[shape, kv](r, "kv"), Variant[kv, kv](r, "kv"), Variant[shape, *square](r, "circle")} {
		if err == nil {
			t.Error("a bad variant was accepted")
		}
	}
}

// celsius has a codec of its own: version 1 stored whole degrees, version 2 tenths.
type celsius struct{ tenths int }
type celsiusCodec struct{ version uint32 }

func (celsiusCodec) Name() string      { return "celsius" }
func (c celsiusCodec) Version() uint32 { return c.version }
func (c celsiusCodec) Append(b []byte, v celsius) ([]byte, error) {
	if c.version == 1 {
		return append(b, byte(v.tenths/10)), nil
	}
	return append(b, byte(v.tenths>>8), byte(v.tenths)), nil
}
func (celsiusCodec) Decode(b []byte, version uint32) (celsius, error) {
	switch {
	case version == 1 && len(b) == 1:
		return celsius{int(b[0]) * 10}, nil
	case version == 2 && len(b) == 2:
		return celsius{int(b[0])<<8 | int(b[1])}, nil
	}
	return celsius{}, errors.New("bad celsius")
}

func TestRegisteredCodecReadsItsOldVersions(t *testing.T) {
	type rec struct {
		T celsius
		N int
	}
	of := func(version uint32) (*Registry, *Codec[rec]) {
		r := NewRegistry()
		if err := Register(r, celsiusCodec{version}); err != nil {
			t.Fatal(err)
		}
		return r, must(Of[rec](r))(t)
	}
	r1, old := of(1)
	r2, now := of(2)
	roundTrip(t, now, rec{celsius{365}, 5}, exact...)
	in := rec{celsius{360}, 5}
	m := must(Migrating[rec](old.Schema(), r2))(t)
	var got rec
	if _, err := m.Decode(must(old.Append(nil, &in))(t), &got); err != nil || got != in {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Migrating[rec](now.Schema(), r1); err == nil || !strings.Contains(err.Error(), CodeMigration) {
		t.Errorf("an older program accepts newer bytes: %v", err)
	}
	if err := Register(r1, celsiusCodec{1}); err == nil {
		t.Error("two codecs of one type were accepted")
	}
}
