package partition

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow/element"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// TestTheFormatIsFrozen: what version 1 has written stays readable, and equal. A change of these bytes is a new version.
func TestTheFormatIsFrozen(t *testing.T) {
	f := newFile(t, 2)
	p, s, n := payload(t, 3, "abc", element.Event{Kind: element.Watermark, Time: 1234})
	f.add(0, Plain, p, s, n)
	p, s, n = payload(t, 2, "z", element.Event{Kind: element.Idle})
	f.add(1, Plain, p, s, n)
	f.endRun()
	f.add(1, Plain, p, s, n)
	f.endRun()
	f.end()
	for name, have := range map[string][]byte{"data": f.data, "index": f.index} {
		path := "testdata/v1." + name + ".hex"
		if *rewrite {
			if err := os.WriteFile(path, []byte(hexLines(have)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != hexLines(have) {
			t.Errorf("%s has changed:\n%s", name, hexLines(have))
		}
	}
}

func hexLines(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		s.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return s.String()
}

func TestAConsumerGetsItsBlocksAsTheyLieInTheFile(t *testing.T) {
	f := sample(t)
	coder := f.coder
	for consumer, blocks := range map[int32][]int{10: {0}, 11: {1, 2, 3}, 12: nil} {
		for from := range int64(len(blocks) + 1) {
			chunks, err := scan(f.index, f.data, consumer, from, MaxBlock)
			if err != nil {
				t.Fatalf("consumer %d from block %d: %v", consumer, from, err)
			}
			var want []byte
			for _, b := range blocks[from:] {
				want = append(want, f.blocks[b]...)
			}
			if have := bytes.Join(chunks, nil); !bytes.Equal(have, want) {
				t.Errorf("consumer %d from block %d: %d bytes, want %d", consumer, from, len(have), len(want))
			}
			for _, c := range chunks {
				if _, err := open(coder, c); err != nil {
					t.Errorf("consumer %d from block %d: %v", consumer, from, err)
				}
			}
		}
		if _, err := scan(f.index, f.data, consumer, int64(len(blocks)+1), MaxBlock); !errors.Is(err, ErrCorrupt) {
			t.Errorf("consumer %d from behind the end: %v", consumer, err)
		}
	}
	for _, consumer := range []int32{9, 13} {
		if _, err := scan(f.index, f.data, consumer, 0, MaxBlock); err == nil || errors.Is(err, ErrCorrupt) {
			t.Errorf("consumer %d reads what is not for it: %v", consumer, err)
		}
	}
}

func TestASharedSubpartitionIsEverybodys(t *testing.T) {
	f := newFile(t, 1)
	f.summary.Shared = true
	p, s, n := payload(t, 3, "abc", element.Event{})
	f.add(0, Plain, p, s, n)
	f.endRun()
	f.end()
	for _, consumer := range []int32{0, 10, 32767} {
		chunks, err := scan(f.index, f.data, consumer, 0, MaxBlock)
		if err != nil || !bytes.Equal(bytes.Join(chunks, nil), f.blocks[0]) {
			t.Errorf("consumer %d: %d chunks, %v", consumer, len(chunks), err)
		}
	}
}

func TestAHugeRecordComesInPieces(t *testing.T) {
	f := newFile(t, 1)
	small, s, n := payload(t, 3, "abc", element.Event{})
	f.add(0, Plain, small, s, n)
	large, s1, n1 := payload(t, 1, strings.Repeat("x", 300_000), element.Event{})
	f.add(0, Plain, large, s1, n1)
	f.add(0, Plain, small, s, n)
	f.endRun()
	f.end()
	for from := range int64(4) {
		chunks, err := scan(f.index, f.data, 10, from, MaxBlock)
		if err != nil {
			t.Fatal(err)
		}
		if have, want := bytes.Join(chunks, nil), bytes.Join(f.blocks[from:], nil); !bytes.Equal(have, want) {
			t.Errorf("from block %d: %d bytes, want %d", from, len(have), len(want))
		}
	}
	chunks, _ := scan(f.index, f.data, 10, 1, MaxBlock)
	if len(chunks) != 6 { // five pieces of the large one, then the small one
		t.Errorf("%d chunks", len(chunks))
	}
}

// TestEveryFlippedBitIsFound: in the index and the data, by the consumers whose part it is in. No byte is without a
// checksum.
func TestEveryFlippedBitIsFound(t *testing.T) {
	f := sample(t)
	read := func(index, data []byte) (errs []error) {
		for consumer := int32(10); consumer < 13; consumer++ {
			chunks, err := scan(index, data, consumer, 0, MaxBlock)
			for _, c := range chunks {
				if err == nil {
					_, err = open(f.coder, c)
				}
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
		return errs
	}
	if errs := read(f.index, f.data); errs != nil {
		t.Fatal(errs)
	}
	for _, which := range []string{"index", "data"} {
		file := map[string][]byte{"index": f.index, "data": f.data}[which]
		for bit := range len(file) * 8 {
			bad := bytes.Clone(file)
			bad[bit/8] ^= 1 << (bit % 8)
			index, data := f.index, f.data
			if which == "index" {
				index = bad
			} else {
				data = bad
			}
			errs := read(index, data)
			if len(errs) == 0 {
				t.Fatalf("bit %d of the %s, byte %d of %d, is flipped and nobody sees it", bit, which, bit/8, len(file))
			}
			for _, err := range errs {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("bit %d of the %s: %v is no corruption", bit, which, err)
				}
			}
		}
	}
}

func TestEveryShorterFileIsFound(t *testing.T) {
	f := sample(t)
	for n := range len(f.index) {
		if _, err := scan(f.index[:n], f.data, 10, 0, MaxBlock); err == nil {
			t.Fatalf("an index of %d bytes instead of %d is read", n, len(f.index))
		}
	}
	for n := range len(f.data) {
		if _, err := scan(f.index, f.data[:n], 10, 0, MaxBlock); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("data of %d bytes instead of %d: %v", n, len(f.data), err)
		}
	}
	if _, err := scan(append(bytes.Clone(f.index), 0), f.data, 10, 0, MaxBlock); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a longer index: %v", err)
	}
	if _, err := scan(f.index, append(bytes.Clone(f.data), 0), 10, 0, MaxBlock); !errors.Is(err, ErrCorrupt) {
		t.Errorf("longer data: %v", err)
	}
}

// TestASoundBlockAtTheWrongPlaceIsFound: a write that went astray leaves blocks whose own checksums are right.
func TestASoundBlockAtTheWrongPlaceIsFound(t *testing.T) {
	f := newFile(t, 2)
	for i := range 4 {
		p, s, n := payload(t, 3, strings.Repeat(string(rune('a'+i)), 5), element.Event{})
		f.add(i/2, Plain, p, s, n)
	}
	f.endRun()
	f.end()
	size := len(f.blocks[0])
	for from := range 4 {
		for to := range 4 {
			if from == to {
				continue
			}
			bad := bytes.Clone(f.data)
			copy(bad[FileHeader+to*size:], f.blocks[from])
			if _, err := scan(f.index, bad, int32(10+to/2), 0, MaxBlock); !errors.Is(err, ErrCorrupt) {
				t.Errorf("block %d in the place of block %d: %v", from, to, err)
			}
		}
	}
	// The same for entries of the index, and for whole files.
	bad := bytes.Clone(f.index)
	copy(bad[FileHeader:], f.index[FileHeader+ExtentLen:FileHeader+2*ExtentLen])
	if _, err := scan(bad, f.data, 10, 0, MaxBlock); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry in the place of another: %v", err)
	}
	other := testName
	other.Attempt++
	foreign := append(AppendDataHeader(nil, other), f.data[FileHeader:]...)
	if _, err := scan(f.index, foreign, 10, 0, MaxBlock); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the data of another attempt: %v", err)
	}
}

func TestCompressionIsUsedWhereItSaves(t *testing.T) {
	f := newFile(t, 1)
	p, s, n := payload(t, 200, "a text that repeats itself", element.Event{})
	noise := bytes.Repeat([]byte{0}, 2000)
	for i := range noise {
		noise[i] = byte(i * i * 31 >> 3)
	}
	for _, form := range []Form{S2, Zstd} {
		var b Block
		if out := f.coder.Pack(make([]byte, 0, PackRoom(len(p))), p, form, &b); b.Form != form || len(out) > len(p)/2 {
			t.Errorf("form %d: %d bytes became %d in form %d", form, len(p), len(out), b.Form)
		}
		tiny := p[:100]
		if f.coder.Pack(make([]byte, 0, PackRoom(len(tiny))), tiny, form, &b); b.Form != Plain || b.Stored != 100 {
			t.Errorf("form %d: a tiny payload is stored in form %d", form, b.Form)
		}
	}
	_, _ = s, n
}

func TestOnlyTrueNamesArePaths(t *testing.T) {
	if n, ok := ParsePath("flights-1", "2-3-4", "e5-p6-a7"); !ok || n != testName || n.Path() != "flights-1/2-3-4/e5-p6-a7" {
		t.Errorf("parsed %+v, %v", n, ok)
	}
	for _, bad := range [][3]string{
		{"flights-1", "2-3-4", "e5-p6-a0"}, {"flights-1", "2-3-4", "e05-p6-a7"}, {"flights-1", "2-3-4", "e5-p6-a7 "}, {"flights-1", "2-3-4", "e5-p6-a7.data"},
		{"flights-1", "+2-3-4", "e5-p6-a7"}, {"flights-1", "2-3", "e5-p6-a7"}, {"flights-1", "2--3-4", "e5-p6-a7"}, {"flights-1", "2-3-4-5", "e5-p6-a7"},
		{"..", "2-3-4", "e5-p6-a7"}, {"", "2-3-4", "e5-p6-a7"}, {"x.tmp", "2-3-4", "e5-p6-a7"},
	} {
		if n, ok := ParsePath(bad[0], bad[1], bad[2]); ok {
			t.Errorf("%q is %+v", bad, n)
		}
	}
	for job, good := range map[string]bool{
		"flights-1": true, "Über Flüge-12": true, "a.b-3": true, "": false, ".": false, "..": false, "../x": false, "a/b": false, `a\b`: false, "a\x00b": false, "a\nb": false,
		".hidden": false, "x-1.tmp": false, "x ": false, " x": false, "\xff": false, strings.Repeat("x", 201): false,
	} {
		if err := ValidateJob(job); (err == nil) != good {
			t.Errorf("%q: %v", job, err)
		}
	}
	bad := testName
	bad.Edge = -1
	if bad.Validate() == nil {
		t.Error("a negative edge")
	}
}
