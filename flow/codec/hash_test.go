package codec

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
)

func hashOf[K comparable](t testing.TB, k K) string {
	t.Helper()
	return fmt.Sprintf("%016x", must(Hasher[K]())(t)(k))
}

// TestGoldenKeyHashes holds the hash to the vectors of its page: a changed hash would move every key of every
// savepoint to the wrong key group.
func TestGoldenKeyHashes(t *testing.T) {
	type route struct{ From, To string }
	type cell struct {
		X, Y int32
		_    int64
		On   bool
	}
	type words struct{ A, B int64 }
	type tenant struct {
		ID    [16]byte
		Inner struct {
			N uint16
			S string
		}
	}
	var id [16]byte
	for i := range id {
		id[i] = byte(i)
	}
	full := tenant{ID: id}
	full.Inner.N, full.Inner.S = 500, "eu-west"
	got := map[string]string{
		"int64 0":                          hashOf(t, int64(0)),
		"int64 1":                          hashOf(t, int64(1)),
		"int64 -1":                         hashOf(t, int64(-1)),
		"int64 max":                        hashOf(t, int64(math.MaxInt64)),
		"int 1000":                         hashOf(t, 1000),
		"int32 -1":                         hashOf(t, int32(-1)),
		"int16 -2":                         hashOf(t, int16(-2)),
		"int8 -3":                          hashOf(t, int8(-3)),
		"uint8 255":                        hashOf(t, uint8(255)),
		"uint16 65535":                     hashOf(t, uint16(65535)),
		"uint32 max":                       hashOf(t, uint32(math.MaxUint32)),
		"uint64 max":                       hashOf(t, uint64(math.MaxUint64)),
		"bool false":                       hashOf(t, false),
		"bool true":                        hashOf(t, true),
		"time 1700000000000000":            hashOf(t, element.Time(1_700_000_000_000_000)),
		"duration 1s":                      hashOf(t, time.Second),
		"string empty":                     hashOf(t, ""),
		"string a":                         hashOf(t, "a"),
		"string JFK":                       hashOf(t, name("JFK")),
		"string 100 x":                     hashOf(t, strings.Repeat("x", 100)),
		"[16]byte 0..15":                   hashOf(t, id),
		"[3]int64 1 2 3":                   hashOf(t, [3]int64{1, 2, 3}),
		"[1]int32 7":                       hashOf(t, [1]int32{7}),
		"struct{} ":                        hashOf(t, struct{}{}),
		"{string JFK, string LAX}":         hashOf(t, route{"JFK", "LAX"}),
		"{string JF, string KLAX}":         hashOf(t, route{"JF", "KLAX"}),
		"{int64 1, int64 2}":               hashOf(t, words{1, 2}),
		"{int32 1, int32 -2, blank, true}": hashOf(t, cell{X: 1, Y: -2, On: true}),
		"{[16]byte 0..15, {uint16 500, string eu-west}}": hashOf(t, full),
	}
	page, err := os.ReadFile("../../docs/format/keyhash.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]*)` \\| `([0-9a-f]{16})` \\|$").FindAllStringSubmatch(string(page), -1) {
		want[m[1]] = m[2]
	}
	for k, h := range got {
		if want[k] != h {
			t.Errorf("| `%s` | `%s` | (the page says %q)", k, h, want[k])
		}
	}
	for k := range want {
		if got[k] == "" {
			t.Errorf("the page has a vector %q that is not tested", k)
		}
	}
}

func TestEqualKeysHashEqualWhateverTheirPath(t *testing.T) {
	// In place (no gaps) and through the encoding: the same bytes, the same hash.
	type dense struct{ A, B uint64 }
	type gaps struct {
		A uint64
		_ [4]byte
		B uint64
	}
	a, b := must(Hasher[dense]())(t), must(Hasher[gaps]())(t)
	rapid.Check(t, func(rt *rapid.T) {
		x, y := rapid.Uint64().Draw(rt, "x"), rapid.Uint64().Draw(rt, "y")
		if a(dense{x, y}) != b(gaps{A: x, B: y}) {
			rt.Fatal("two hashes")
		}
		if must(Hasher[int8]())(t)(int8(x)) != Mix(uint64(int64(int8(x)))) || must(Hasher[uint16]())(t)(uint16(x)) != Mix(uint64(uint16(x))) {
			rt.Fatal("integers are not extended by their sign")
		}
	})
}

func TestBadKeysAreRefused(t *testing.T) {
	for _, c := range []struct {
		want string
		err  error
	}{
		{"float64", keyErr[float64]()},
		{"struct { X float32 }.X", keyErr[struct{ X float32 }]()},
		{"*int", keyErr[*int]()},
		{"interface", keyErr[any]()},
		{"chan int", keyErr[chan int]()},
		{"[]", keyErr[[3]complex128]()},
		{"flow.Time", keyErr[time.Time]()},
		{"uintptr", keyErr[uintptr]()},
		{"too long", keyErr[[1000]string]()},
	} {
		var te *TypeError
		if !errors.As(c.err, &te) || te.Code != CodeBadKey || !strings.Contains(te.Error(), c.want) {
			t.Errorf("got %v, want an E007 about %s", c.err, c.want)
		}
	}
}

func keyErr[K comparable]() error {
	_, err := Hasher[K]()
	return err
}

func TestKeyGroupsAreContiguousPerSubtask(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.IntRange(1, MaxParallelism).Draw(rt, "maxParallelism")
		p := rapid.IntRange(1, groups).Draw(rt, "parallelism")
		g := KeyGroup(rapid.Uint64().Draw(rt, "hash"), groups)
		if g < 0 || g >= groups {
			rt.Fatalf("key group %d of %d", g, groups)
		}
		s := Subtask(g, p, groups)
		if s < 0 || s >= p {
			rt.Fatalf("subtask %d of %d", s, p)
		}
		if g > 0 {
			if before := Subtask(g-1, p, groups); before != s && before != s-1 {
				rt.Fatalf("key groups %d and %d belong to %d and %d", g-1, g, before, s)
			}
		}
		if Subtask(0, p, groups) != 0 || Subtask(groups-1, p, groups) != p-1 {
			rt.Fatal("a subtask has no key group")
		}
	})
	if KeyGroup(0, 256) != 0 || KeyGroup(math.MaxUint64, 256) != 255 {
		t.Error("the limits of the hash are not the limits of the key groups")
	}
}
