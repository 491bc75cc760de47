package codec

import (
	"strings"
	"testing"
)

// TestSchemasFitAsTheirTypesDo holds Fits against Migrating: the same schemas fit, and the same do not.
func TestSchemasFitAsTheirTypesDo(t *testing.T) {
	type (
		a1 struct {
			N    int32
			Gone string
			In   []struct{ V uint8 }
		}
		a2 struct {
			In  []struct{ V, W uint64 }
			N   int64
			New map[string]bool
		}
		b struct{ N string }
		c struct{ N int16 }
		d struct{ In [3]struct{ V uint8 } }
	)
	schemas := map[string]string{
		"a1": must(Of[a1](nil))(t).Schema(), "a2": must(Of[a2](nil))(t).Schema(), "b": must(Of[b](nil))(t).Schema(),
		"c": must(Of[c](nil))(t).Schema(), "d": must(Of[d](nil))(t).Schema(), "i64": must(Of[int64](nil))(t).Schema(),
	}
	into := map[string]func(old string) error{
		"a1":  func(old string) error { _, err := Migrating[a1](old, nil); return err },
		"a2":  func(old string) error { _, err := Migrating[a2](old, nil); return err },
		"b":   func(old string) error { _, err := Migrating[b](old, nil); return err },
		"c":   func(old string) error { _, err := Migrating[c](old, nil); return err },
		"d":   func(old string) error { _, err := Migrating[d](old, nil); return err },
		"i64": func(old string) error { _, err := Migrating[int64](old, nil); return err },
	}
	fitting := 0
	for from, old := range schemas {
		for to, now := range schemas {
			err, want := Fits(old, now), into[to](old)
			if (err == nil) != (want == nil) {
				t.Errorf("%s into %s: %v, and the types: %v", from, to, err, want)
			}
			if err == nil {
				fitting++
			}
		}
	}
	if fitting < len(schemas)+1 || fitting == len(schemas)*len(schemas) {
		t.Errorf("%d of all pairs fit", fitting)
	}
	err := Fits(schemas["a1"], schemas["b"])
	if err == nil || !strings.Contains(err.Error(), "i32") || !strings.Contains(err.Error(), "str") {
		t.Errorf("both types must be named: %v", err)
	}
	for _, bad := range []string{"", "no schema", "{"} {
		if Fits(bad, schemas["b"]) == nil || Fits(schemas["b"], bad) == nil {
			t.Errorf("%q is a schema", bad)
		}
	}
}
