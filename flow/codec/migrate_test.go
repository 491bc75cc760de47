package codec

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type order1 struct {
	ID      int32
	Comment string
	Lines   []line1
	Removed map[string][]*kv
	Shape   shape
	At      time.Time
	Blob    [3]byte
	Small   uint8
}

type line1 struct {
	Item  string
	Count int16
	Gone  complex128
}

// order2 is order1 after a year: fields came, went, moved and grew.
type order2 struct {
	At    time.Time
	Blob  [3]byte
	ID    int64
	Shape shape
	Lines []line2
	Text  string `flow:"Comment"`
	New   []string
	Small uint64
}

type line2 struct {
	Price int64
	Count int32
	Item  string
}

func TestMigrationKeepsWhatBothVersionsHave(t *testing.T) {
	r := shapes(t)
	old := must(Of[order1](r))(t)
	m := must(Migrating[order2](old.Schema(), r))(t)
	in := order1{ID: -7, Comment: "hello", Lines: []line1{{"a", 1, 2i}, {"b", -2, 1}}, Shape: &circle{1},
		Removed: map[string][]*kv{"x": {nil, {"k", 1}}, "y": nil}, At: time.Unix(1, 2).UTC(), Blob: [3]byte{1, 2, 3}, Small: 200}
	b := append(must(old.Append(nil, &in))(t), "rest"...)
	got := order2{New: []string{"dirt"}}
	rest, err := m.Decode(b, &got)
	if err != nil || string(rest) != "rest" {
		t.Fatalf("%q, %v", rest, err)
	}
	want := order2{At: in.At, Blob: in.Blob, ID: -7, Shape: in.Shape, Text: "hello", Small: 200,
		Lines: []line2{{0, 1, "a"}, {0, -2, "b"}}}
	if d := cmp.Diff(want, got, exact...); d != "" {
		t.Fatal(d)
	}
	for i := range len(b) - 4 {
		if _, err := m.Decode(b[:i:i], &got); err == nil {
			t.Fatalf("decoded from %d of %d bytes", i, len(b)-4)
		}
	}
}

func TestMigrationOfTheSameSchemaDecodesTheSame(t *testing.T) {
	c := must(Of[nested](nil))(t)
	m := must(Migrating[nested](c.Schema(), nil))(t)
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.Make[nested]().Draw(rt, "value")
		b, err := c.Append(nil, &v)
		if err != nil {
			rt.Fatal(err)
		}
		var got nested
		if _, err := m.Decode(b, &got); err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(v, got, exact...); d != "" {
			rt.Fatal(d)
		}
	})
}

// A removed field of any type is skipped exactly.
func TestMigrationSkipsEveryForm(t *testing.T) {
	type all struct {
		S scalars
		N nested
		M maps
		C complex64
		R shape
	}
	type v1 struct {
		Gone all
		Kept string
	}
	type v2 struct{ Kept string }
	r := shapes(t)
	c := must(Of[v1](r))(t)
	m := must(Migrating[v2](c.Schema(), r))(t)
	rapid.Check(t, func(rt *rapid.T) {
		v := v1{Kept: rapid.String().Draw(rt, "kept")}
		v.Gone = all{S: rapid.Make[scalars]().Draw(rt, "s"), N: rapid.Make[nested]().Draw(rt, "n"), M: rapid.Make[maps]().Draw(rt, "m"),
			R: rapid.SampledFrom([]shape{nil, square{1}, &circle{2}}).Draw(rt, "r")}
		b, err := c.Append(nil, &v)
		if err != nil {
			rt.Fatal(err)
		}
		var got v2
		if rest, err := m.Decode(b, &got); err != nil || len(rest) != 0 || got.Kept != v.Kept {
			rt.Fatalf("got %q, want %q, %d bytes over, %v", got.Kept, v.Kept, len(rest), err)
		}
	})
}

func TestMigrationRefusesAnotherMeaning(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"narrower", migrationError[struct{ A int32 }](`{"A":i64}`)},
		{"sign", migrationError[struct{ A uint64 }](`{"A":i64}`)},
		{"number to string", migrationError[struct{ A string }](`{"A":i64}`)},
		{"list to scalar", migrationError[struct{ A int64 }](`{"A":[]i64}`)},
		{"array length", migrationError[struct{ A [4]int64 }](`{"A":[3]i64}`)},
		{"opaque name", migrationError[struct{ A time.Time }](`{"A":opaque("x")}`)},
		{"struct to time", migrationError[struct{ A time.Time }](`{"A":{}}`)},
	} {
		var te *TypeError
		if !errors.As(c.err, &te) || te.Code != CodeMigration || !strings.Contains(te.Path, ".A") {
			t.Errorf("%s: got %v, want E009 at .A", c.name, c.err)
		}
	}
}

func migrationError[T any](old string) error {
	_, err := Migrating[T](old, nil)
	return err
}

func TestStoredVariantThatIsGoneFailsOnlyWhenItOccurs(t *testing.T) {
	c := must(Of[[]shape](shapes(t)))(t)
	r := NewRegistry()
	if err := Variant[shape, square](r, "square"); err != nil {
		t.Fatal(err)
	}
	m := must(Migrating[[]shape](c.Schema(), r))(t)
	var got []shape
	ok := []shape{square{1}, nil}
	if _, err := m.Decode(must(c.Append(nil, &ok))(t), &got); err != nil {
		t.Error(err)
	}
	bad := []shape{&circle{1}}
	if _, err := m.Decode(must(c.Append(nil, &bad))(t), &got); err == nil || !strings.Contains(err.Error(), `"circle"`) {
		t.Errorf("got %v", err)
	}
}

func TestParseRefusesWhatIsNoSchema(t *testing.T) {
	for _, s := range []string{"", "i65", "[]", "{", `{"a":i64`, `{"a":i64,}x`, `{"a":i64 "b":i64}`, `{"a":i64,"a":str}`, "[-1]i64",
		"[99999999]i64", "raw(x)", "raw", "custom(\"x\")", "map[i64", "i64 ", "opaque(x)", "[1048576][1048576]i64", `{a:i64}`,
		strings.Repeat("[]", maxDepth+2) + "i64"} {
		if n, err := parse(s); err == nil {
			t.Errorf("%q was read as %s", s, n)
		}
	}
}
