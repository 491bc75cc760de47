package chunk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func header(groups int) Header {
	return Header{MaxParallelism: groups, Table: "windows", Scope: Keyed, Key: "i64", States: []State{
		{Name: "count", Kind: Value, Value: "i64"},
		{Name: "seen", Kind: Map, Sub: "str", Value: `{"At":i64}`},
		{Name: "log", Kind: List, Sub: "u32", Value: "str", TTL: time.Hour},
	}}
}

// spaced is header with namespaces.
func spaced(groups int) Header {
	h := header(groups)
	h.Space = "i64"
	return h
}

func write(t testing.TB, w *Writer) []byte {
	t.Helper()
	var out bytes.Buffer
	n, err := w.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("wrote %d of %d bytes, %v", n, out.Len(), err)
	}
	return out.Bytes()
}

func read(b []byte, first, end int) (entries []Entry, err error) {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	for e, err := range r.Read(first, end) {
		if err != nil {
			return entries, err
		}
		e.Space, e.Key, e.Sub, e.Value = slices.Clone(e.Space), slices.Clone(e.Key), slices.Clone(e.Sub), slices.Clone(e.Value)
		entries = append(entries, e)
	}
	return entries, nil
}

// entryGen draws entries of all forms and sizes: many small ones, a few beyond a block.
func entryGen(h Header, sizes []int) *rapid.Generator[Entry] {
	short := rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 2)
	return rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{State: rapid.IntRange(0, 2).Draw(t, "state"), Group: rapid.IntRange(0, h.MaxParallelism-1).Draw(t, "group"),
			Op: rapid.SampledFrom([]Op{Put, Put, Put, Delete, Drop}).Draw(t, "op"), Key: short.Draw(t, "key")}
		if e.Op == Drop && h.Space == "" {
			e.Op = Put
		}
		if h.Space != "" {
			e.Space = short.Draw(t, "space")
		}
		if e.Op == Drop {
			e.State, e.Key = 0, nil
			return e
		}
		if e.State > 0 {
			e.Sub = short.Draw(t, "sub")
		}
		if e.Op == Put {
			size := rapid.SampledFrom(sizes).Draw(t, "size")
			e.Value = bytes.Repeat([]byte{byte(size)}, size)
			if rapid.Bool().Draw(t, "random") {
				rand.NewChaCha8([32]byte{byte(size)}).Read(e.Value)
			}
		}
		return e
	})
}

var sizes = []int{0, 1, 10, 3000, blockSize - 10, blockSize + 1, 3 * blockSize}

func fill(t interface{ Fatal(...any) }, add func(*Entry) error, entries []Entry) {
	for _, e := range entries {
		if err := add(&e); err != nil {
			t.Fatal(err)
		}
	}
}

func headerGen(groups int) *rapid.Generator[Header] {
	return rapid.SampledFrom([]Header{header(groups), spaced(groups)})
}

func TestChunkReadsBackByKeyGroup(t *testing.T) {
	const groups = 16
	rapid.Check(t, func(rt *rapid.T) {
		h := headerGen(groups).Draw(rt, "header")
		entries := rapid.SliceOf(entryGen(h, sizes)).Draw(rt, "entries")
		w, err := NewWriter(h)
		if err != nil {
			rt.Fatal(err)
		}
		fill(rt, w.Add, entries)
		var out bytes.Buffer
		if _, err := w.WriteTo(&out); err != nil {
			rt.Fatal(err)
		}
		slices.SortStableFunc(entries, func(a, b Entry) int { return a.Group - b.Group })
		var streamed bytes.Buffer
		st, err := NewStream(&streamed, h)
		if err != nil {
			rt.Fatal(err)
		}
		fill(rt, st.Add, entries)
		if n, err := st.Finish(); err != nil || n != int64(streamed.Len()) || !bytes.Equal(streamed.Bytes(), out.Bytes()) {
			rt.Fatalf("the stream wrote %d bytes, not the same %d: %v", n, out.Len(), err)
		}
		first := rapid.IntRange(0, groups).Draw(rt, "first")
		end := rapid.IntRange(first, groups).Draw(rt, "end")
		got, err := read(out.Bytes(), first, end)
		if err != nil {
			rt.Fatal(err)
		}
		var want []Entry
		for _, e := range entries {
			if first <= e.Group && e.Group < end {
				want = append(want, e)
			}
		}
		eq := cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })
		if d := cmp.Diff(want, got, eq); d != "" {
			rt.Fatal(d)
		}
		r, err := NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			rt.Fatal(err)
		}
		if n := r.Count(first, end); n != len(want) {
			rt.Fatalf("Count says %d, there are %d", n, len(want))
		}
		if n, err := r.Verify(); err != nil || n != len(entries) || n != w.Len() {
			rt.Fatalf("Verify counts %d of %d: %v", n, len(entries), err)
		}
		if d := cmp.Diff(&h, r.Header()); d != "" {
			rt.Fatal(d)
		}
	})
}

// sample is a chunk with several blocks in both forms.
func sample(t testing.TB) []byte {
	w, err := NewWriter(header(8))
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, blockSize)
	rand.NewChaCha8([32]byte{}).Read(noise)
	fill(t, w.Add, []Entry{{Group: 3, Key: []byte("a"), Value: []byte("1")}, {Group: 3, State: 1, Op: Delete, Key: []byte("b"), Sub: []byte("x")},
		{Group: 1, State: 2, Key: []byte("c"), Sub: []byte{0}, Value: bytes.Repeat([]byte("x"), blockSize)}, {Group: 7, Key: []byte("d"), Value: noise},
		{Group: 7, Key: []byte("e"), Value: []byte{}}})
	return write(t, w)
}

func TestEveryDamagedByteIsFound(t *testing.T) {
	b := sample(t)
	for i := range b {
		if i > 400 && i < len(b)-400 && i%97 != 0 { // all of the structure, some of the noise
			continue
		}
		for _, flip := range []byte{1, 0x80} {
			bad := slices.Clone(b)
			bad[i] ^= flip
			if _, err := read(bad, 0, 8); err == nil {
				t.Fatalf("byte %d of %d changed and nobody noticed", i, len(b))
			}
		}
	}
	for _, n := range []int{0, 1, preambleSize, 100, len(b) / 2, len(b) - trailerSize, len(b) - 1} {
		if _, err := read(b[:n], 0, 8); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := read(append(slices.Clone(b), 0), 0, 8); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

// An index longer than the chunk wraps its place around to behind the end of all numbers.
func TestAnIndexLongerThanTheChunkIsCorrupt(t *testing.T) {
	b := sample(t)
	trailer := b[len(b)-trailerSize:]
	n := uint32(len(b) + 1000)
	binary.LittleEndian.PutUint64(trailer, uint64(len(b))-uint64(trailerSize)-uint64(n))
	binary.LittleEndian.PutUint32(trailer[8:], n)
	if _, err := NewReader(bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error is %v", err)
	}
}

// TestGolden: chunks of version 2 stay readable, byte for byte. The file is rewritten by
//
//	go test ./snapshot/chunk -run TestGolden -golden
//
// when a format of a new version gets its own file; the old one stays.
func TestGolden(t *testing.T) {
	const file = "testdata/v2.chunk"
	h := spaced(8)
	want := []Entry{
		{Group: 3, Space: []byte{1}, Key: []byte{2}, Value: []byte{84}}, {Group: 3, Op: Drop, Space: []byte{7}},
		{Group: 5, State: 1, Op: Delete, Space: []byte{1}, Key: []byte{4}, Sub: []byte{1, 'x'}},
		{Group: 5, State: 2, Space: []byte{1}, Key: []byte{6}, Sub: []byte{0}, Value: []byte{2, 1, 1, 'y'}},
	}
	w, err := NewWriter(h)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w.Add, want)
	got := write(t, w)
	if *golden {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := read(stored, 0, 8)
	if d := cmp.Diff(want, entries); d != "" || err != nil {
		t.Errorf("the golden chunk reads as something else: %v\n%s", err, d)
	}
	if !bytes.Equal(got, stored) {
		t.Errorf("the format changed without a new version:\ngot  %x\nwant %x", got, stored)
	}
}

var golden = flag.Bool("golden", false, "rewrite the golden chunk")

func TestEmptyChunk(t *testing.T) {
	w, err := NewWriter(header(1))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read(write(t, w), 0, 1); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if err := w.Add(&Entry{Key: []byte("k"), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	w.Reset()
	if w.Len() != 0 || w.Bytes() != 0 {
		t.Errorf("%d entries, %d bytes after Reset", w.Len(), w.Bytes())
	}
	if got, err := read(write(t, w), 0, 1); err != nil || len(got) != 0 {
		t.Errorf("%v, %v after Reset", got, err)
	}
}

func TestWriterRefusesWhatItCouldNotRead(t *testing.T) {
	states := func(s ...State) Header { return Header{MaxParallelism: 1, Scope: Keyed, States: s} }
	for name, h := range map[string]Header{
		"no groups":   {Scope: Keyed},
		"many groups": {MaxParallelism: 1<<15 + 1, Scope: Keyed},
		"no scope":    {MaxParallelism: 1},
		"kind":        states(State{Name: "a"}),
		"name":        states(State{Kind: Value}),
		"twice":       states(State{Name: "a", Kind: Value}, State{Name: "a", Kind: Value}),
		"sub-key":     states(State{Name: "a", Kind: Value, Sub: "str"}),
		"no sub-key":  states(State{Name: "a", Kind: Map}),
		"ttl":         states(State{Name: "a", Kind: Value, TTL: -1}),
	} {
		if _, err := NewWriter(h); err == nil {
			t.Errorf("%s: accepted by a writer", name)
		}
		if _, err := NewStream(io.Discard, h); err == nil {
			t.Errorf("%s: accepted by a stream", name)
		}
	}
	w, err := NewWriter(header(1))
	if err != nil {
		t.Fatal(err)
	}
	var size *SizeError
	if err := w.Add(&Entry{Value: make([]byte, MaxEntry+1)}); !errors.As(err, &size) || size.State != "count" {
		t.Errorf("an entry beyond the limit: %v", err)
	}
	for name, e := range map[string]Entry{"state": {State: 3}, "group": {Group: 1}, "op": {Op: Drop + 1}, "drop without spaces": {Op: Drop}} {
		if err := w.Add(&e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	s, err := NewStream(io.Discard, header(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Add(&Entry{Group: 1}), s.Add(&Entry{Group: 0})); err == nil {
		t.Error("key groups out of order were accepted")
	}
}

func TestNewerVersionIsNamed(t *testing.T) {
	b := sample(t)
	b[len(magic)] = version + 1
	if _, err := read(b, 0, 8); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", version+1)) {
		t.Errorf("got %v", err)
	}
}

// FuzzReader: any bytes are refused or read, without a panic.
func FuzzReader(f *testing.F) {
	f.Add(sample(f)[:200])
	golden, err := os.ReadFile("testdata/v2.chunk")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for e, err := range r.Read(0, r.Header().MaxParallelism) {
			if err == nil && r.header.check(&e) != nil {
				t.Fatalf("entry %+v", e)
			}
		}
	})
}

// FuzzParts: what a checksum would usually hide, header, index and entries, from any bytes.
func FuzzParts(f *testing.F) {
	h := spaced(8)
	f.Add(h.append(nil), appendIndex(nil, []span{{1, 20, 0, 1}, {7, 30, 9, 5}}), h.appendEntry(nil, &Entry{State: 1, Key: []byte("k"), Sub: []byte("s"), Value: []byte("v")}))
	f.Fuzz(func(t *testing.T, head, index, block []byte) {
		if h, err := parseHeader(head); err == nil {
			if again, err := parseHeader(h.append(nil)); err != nil || !cmp.Equal(h, again) {
				t.Fatalf("%+v reads back as %+v, %v", h, again, err)
			}
		}
		if spans, err := parseIndex(index, 8, 10, 1000); err == nil {
			for i, s := range spans {
				if s.block < 10 || s.block >= 1000 || s.group >= 8 || i > 0 && s.group <= spans[i-1].group {
					t.Fatalf("bad span %+v accepted", s)
				}
			}
		}
		hd := spaced(8)
		for c := (Cursor{r: &Reader{header: &hd}, data: block}); ; {
			e, err := c.entry(0)
			if err != nil {
				return
			}
			if b := hd.appendEntry(nil, &e); len(b) > len(block) {
				t.Fatalf("%+v takes %d of %d bytes", e, len(b), len(block))
			}
		}
	})
}

func BenchmarkChunk(b *testing.B) {
	const n = 1 << 18
	w, err := NewWriter(header(256))
	if err != nil {
		b.Fatal(err)
	}
	add := func() {
		w.Reset()
		var key [8]byte
		x := uint64(1)
		for range n {
			x = x*6364136223846793005 + 1442695040888963407
			for i := range key {
				key[i] = byte(x >> (8 * i))
			}
			if err := w.Add(&Entry{Group: int(x >> 56), Key: key[:5], Value: key[5:]}); err != nil {
				b.Fatal(err)
			}
		}
	}
	per := func(b *testing.B, bytes int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		b.ReportMetric(float64(bytes)/n, "B/entry")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			add()
		}
		per(b, w.Bytes())
	})
	var out bytes.Buffer
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			out.Reset()
			if _, err := w.WriteTo(&out); err != nil {
				b.Fatal(err)
			}
		}
		per(b, out.Len())
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			r, err := NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
			if err != nil {
				b.Fatal(err)
			}
			if n, err := r.Verify(); err != nil || n != w.Len() {
				b.Fatal(n, err)
			}
		}
		per(b, out.Len())
	})
}
