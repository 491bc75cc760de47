package slab

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/worker/spill"
)

type row struct {
	n int64
	_ string // rows hold pointers
}

func TestRowsStayWhereTheyAre(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int64{0, 8 << 10, 64 << 10}).Draw(rt, "limit")
		b := spill.NewBudget(limit)
		shape := ShapeFor[row](limit, rapid.IntRange(1, 4).Draw(rt, "sharers"))
		rows := Make[row](shape, b)
		rows.Expect(rapid.SampledFrom([]int{0, 5, 100_000}).Draw(rt, "expected"))
		var want []int64
		for i := range rapid.IntRange(0, 5000).Draw(rt, "rows") {
			if i%100 == 99 && rapid.Bool().Draw(rt, "drop") {
				rows.Drop()
				want = want[:len(want)-1]
			}
			r := rows.Add()
			if r == nil {
				if limit == 0 {
					rt.Fatal("no room without a limit")
				}
				break
			}
			if r.n != 0 {
				rt.Fatalf("a new row has %d", r.n)
			}
			r.n = int64(i + 1)
			want = append(want, r.n)
		}
		if rows.Len() != len(want) || rows.Bytes() != b.Used() || limit > 0 && b.Peak() > limit || rows.Bytes() < int64(len(want))*shape.Row() {
			rt.Fatalf("%d rows of %d in %d bytes, %d taken of %d", rows.Len(), len(want), rows.Bytes(), b.Peak(), limit)
		}
		i := 0
		for chunk := range rows.Chunks {
			for _, r := range chunk {
				if r.n != want[i] || rows.At(uint32(i)).n != want[i] {
					rt.Fatalf("row %d is %d, want %d", i, r.n, want[i])
				}
				i++
			}
		}
		if i != len(want) {
			rt.Fatalf("the chunks hold %d rows of %d", i, len(want))
		}
		rows.Release()
		if b.Used() != 0 || rows.Len() != 0 {
			rt.Fatalf("%d bytes are taken after Release", b.Used())
		}
	})
}

func TestAChunkIsASmallPartOfTheMemory(t *testing.T) {
	if c := ShapeFor[row](64<<10, 8).Chunk(); c > 1<<10 {
		t.Errorf("a chunk of %d bytes for each of 8 lists in 64 KiB", c)
	}
	if c := ShapeFor[[1 << 20]byte](64<<10, 8).Chunk(); c != 1<<20 {
		t.Errorf("a chunk of a large row has %d bytes", c)
	}
	if c := ShapeFor[struct{}](0, 1).Chunk(); c != maxChunk {
		t.Errorf("a chunk of nothing has %d bytes", c)
	}
}

func TestForceTakesMoreThanThereIs(t *testing.T) {
	b := spill.NewBudget(1)
	rows := Make[row](ShapeFor[row](1, 1), b)
	if rows.Add() != nil {
		t.Error("a row fits into a byte")
	}
	if rows.Force().n = 7; rows.At(0).n != 7 {
		t.Error("the row is not there")
	}
}

// TestIndexIsAMultimap finds all rows of a hash, with few hashes so that they collide in their slots.
func TestIndexIsAMultimap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := spill.NewBudget(0)
		x := MakeIndex(b)
		spread := rapid.SampledFrom([]uint32{1, 3 << 30, 1 << 26, 40503}).Draw(rt, "spread")
		n := rapid.IntRange(1, 400).Draw(rt, "rows")
		if rapid.Bool().Draw(rt, "reserved") {
			x.Reserve(n)
			if used := b.Used(); used > int64(n)*SlotBytes+8 {
				rt.Fatalf("%d bytes for %d rows", used, n)
			}
		}
		model := map[uint32]map[uint32]bool{}
		for i := range uint32(n) {
			h := rapid.Uint32Range(0, 60).Draw(rt, "hash") * spread
			if x.Full() {
				if !x.Grow() {
					rt.Fatal("no room without a limit")
				}
			}
			x.Insert(x.Gap(h), h, i)
			if model[h] == nil {
				model[h] = map[uint32]bool{}
			}
			model[h][i] = true
		}
		for h := range uint32(70) {
			h *= spread
			found := 0
			for w, i, ok := x.Find(h); ok; w, i, ok = x.Next(w, h) {
				if !model[h][i] {
					rt.Fatalf("hash %d leads to row %d", h, i)
				}
				found++
			}
			if found != len(model[h]) {
				rt.Fatalf("hash %d leads to %d rows, want %d", h, found, len(model[h]))
			}
		}
		x.Release()
		if b.Used() != 0 {
			rt.Fatalf("%d bytes are taken after Release", b.Used())
		}
	})
}

func TestAnIndexDoesNotGrowBeyondTheBudget(t *testing.T) {
	b := spill.NewBudget(8*minSlots + 10)
	x := MakeIndex(b)
	if !x.Full() || !x.Grow() || x.Full() {
		t.Fatal("the smallest index does not fit")
	}
	if x.Grow() {
		t.Error("the index has grown beyond the budget")
	}
	w := x.Gap(5)
	x.Insert(w, 5, 1)
	x.Replace(w, 5, 2)
	if _, i, ok := x.Find(5); !ok || i != 2 {
		t.Errorf("found row %d, %v", i, ok)
	}
}
