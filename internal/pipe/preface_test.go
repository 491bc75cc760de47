package pipe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
)

func TestPrefaceIsFrozen(t *testing.T) {
	p := Preface{Job: HashJob("flights-1"), Process: 7, JobEpoch: 2, RegionEpoch: 3}
	b := p.Encode()
	// docs/format/preface.md shows these bytes.
	const want = "534c445001000000070000000000000002000000000000000300000000000000" +
		"e55343eaf2f2a455f9c3486c62eb9021ee9badcaaf184685128b3e353a8a877a"
	if got := hex.EncodeToString(b[:]); got != want {
		t.Errorf("encoded as\n%s, want\n%s", got, want)
	}
	got, err := DecodePreface(b)
	if err != nil || got != p {
		t.Errorf("decoded as %+v, %v", got, err)
	}
}

func TestPrefaceReaderTakesNoByteOfTheRecords(t *testing.T) {
	p := Preface{Job: HashJob("j"), Process: 1}
	b := p.Encode()
	r := bytes.NewBufferString(string(b[:]) + "records")
	if _, err := ReadPreface(r); err != nil {
		t.Fatal(err)
	}
	if rest := r.String(); rest != "records" {
		t.Errorf("left %q", rest)
	}
}

func TestShortPrefaceIsAnError(t *testing.T) {
	p := Preface{Job: HashJob("j"), Process: 1}
	b := p.Encode()
	if _, err := ReadPreface(bytes.NewReader(b[:PrefaceSize-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestEveryFlippedBitOfAPrefaceIsSeen(t *testing.T) {
	p := Preface{Job: HashJob("flights-1"), Process: 7, JobEpoch: 2, RegionEpoch: 3}
	good := p.Encode()
	for bit := range PrefaceSize * 8 {
		b := good
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := DecodePreface(b); !errors.Is(err, ErrPreface) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
}

func FuzzPreface(f *testing.F) {
	for _, p := range []Preface{{Process: 1}, {Job: HashJob("y")}, {Job: HashJob("x"), Process: 1 << 63, JobEpoch: 9, RegionEpoch: 1}} {
		b := p.Encode()
		f.Add(b[:])
	}
	f.Add(bytes.Repeat([]byte{0}, PrefaceSize))
	f.Add([]byte("SSH-2.0-OpenSSH_9.6\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadPreface(bytes.NewReader(data))
		if err != nil {
			return
		}
		if b := p.Encode(); !bytes.Equal(b[:], data[:PrefaceSize]) {
			t.Fatalf("%+v was read from bytes that are not its own", p)
		}
	})
}
