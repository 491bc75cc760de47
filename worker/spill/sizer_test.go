package spill

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/codec"
)

func extra[T any](t *testing.T, v T) (n int64, s *Sizer[T]) {
	c, err := codec.Of[T](nil)
	if err != nil {
		t.Fatal(err)
	}
	s = SizerOf(c)
	return s.Extra(&v), s
}

func TestSizesAreWhatValuesHold(t *testing.T) {
	type flat struct {
		A int64
		B [100]int32
		C time.Time
	}
	if n, s := extra(t, flat{}); n != 0 || !s.Fixed() || !s.Cheap() {
		t.Errorf("a flat value holds %d", n)
	}
	type texts struct {
		A string
		N int
		B [2]string
	}
	if n, s := extra(t, texts{A: strings.Repeat("x", 33), B: [2]string{"", "yy"}}); n != 48+16 || s.Fixed() || !s.Cheap() {
		t.Errorf("strings hold %d", n)
	}
	type lists struct {
		N []int64
		S []string
		B []byte
	}
	if n, s := extra(t, lists{N: make([]int64, 3, 10), S: []string{"a", strings.Repeat("b", 20)}, B: make([]byte, 7)}); n != 80+2*16+16+32+7 || !s.Cheap() {
		t.Errorf("slices hold %d", n)
	}
	type linked struct {
		P *string
		M map[string]int64
	}
	long := strings.Repeat("x", 1000)
	if n, s := extra(t, linked{P: &long, M: map[string]int64{long: 1}}); n < 2000 || s.Cheap() || s.Fixed() {
		t.Errorf("what is pointed to holds %d", n)
	}
	if n, s := extra(t, [][]string{{long}, {long}}); n < 2000 || s.Cheap() {
		t.Errorf("slices of slices hold %d", n)
	}
	type hashed struct {
		A string
		B [256]byte
	}
	if n, s := extra(t, hashed{A: long}); n != 1008 || !s.Cheap() {
		t.Errorf("a string in front of a plain array holds %d, and is looked up by encoding: %t", n, !s.Cheap())
	}
	if n, s := extra(t, [300]string{299: long}); n < 1000 || s.Cheap() {
		t.Errorf("a long array holds %d", n)
	}
}

func TestSizesCostNothing(t *testing.T) {
	type texts struct{ A, B string }
	c, err := codec.Of[texts](nil)
	if err != nil {
		t.Fatal(err)
	}
	s, v := SizerOf(c), &texts{A: "abc", B: "def"}
	if n := testing.AllocsPerRun(100, func() { s.Extra(v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
