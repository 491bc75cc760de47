package frame

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
)

func build(h Header, records []byte, segments []Segment) []byte {
	b := append(make([]byte, HeaderLen), records...)
	b = AppendTable(b, segments)
	h.Segments = uint32(len(segments))
	for _, s := range segments {
		h.Records += s.Records
		if s.Event.Kind == element.End {
			h.Flags |= Ended
		}
	}
	h.Payload = uint32(len(b) - HeaderLen)
	h.Raw, h.Sum = h.Payload, Sum(b[HeaderLen:])
	h.Put(b)
	return b
}

func open(b []byte) (Header, []Segment, []byte, error) {
	h, err := Parse(b)
	if err != nil {
		return h, nil, nil, err
	}
	if err := h.Verify(b[HeaderLen:]); err != nil {
		return h, nil, nil, err
	}
	if h.Type != Data || h.Flags&(Piece|Compressed) != 0 {
		return h, nil, nil, nil
	}
	s, r, err := h.Table(b[HeaderLen:], nil)
	return h, s, r, err
}

func sample() []byte {
	return build(Header{Type: Data, Channel: 9, Sequence: 4, Backlog: 2}, []byte("abcdefg"), []Segment{
		{Records: 2, Bytes: 4, Event: element.Event{Kind: element.Watermark, Time: -5}},
		{Event: element.Event{Kind: element.Barrier, Checkpoint: 77}},
		{Records: 3, Bytes: 3, Event: element.Event{Kind: element.End, Time: element.MaxTime}},
	})
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []byte
		var segments []Segment
		for i, n := 0, rapid.IntRange(1, MaxSegments).Draw(t, "segments"); i < n; i++ {
			s := Segment{Records: uint32(rapid.IntRange(0, 5).Draw(t, "records")), Event: element.Event{
				Kind:       element.Kind(rapid.IntRange(int(element.Watermark), int(element.Barrier)).Draw(t, "kind")),
				Time:       element.Time(rapid.Int64().Draw(t, "time")),
				Checkpoint: element.CheckpointID(rapid.Uint64().Draw(t, "checkpoint")),
			}}
			if i == n-1 && rapid.Bool().Draw(t, "without event") {
				s.Event = element.Event{}
			}
			if s.Records > 0 {
				s.Bytes = s.Records + uint32(rapid.IntRange(0, 50).Draw(t, "bytes"))
			}
			records = append(records, make([]byte, s.Bytes)...)
			segments = append(segments, s)
		}
		in := Header{Type: Data, Channel: rapid.Uint32().Draw(t, "channel"), Sequence: rapid.Uint64Min(1).Draw(t, "sequence"), Backlog: rapid.Uint32().Draw(t, "backlog")}
		b := build(in, records, segments)
		h, got, r, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		if h.Channel != in.Channel || h.Sequence != in.Sequence || h.Backlog != in.Backlog || !reflect.DeepEqual(got, segments) || len(r) != len(records) {
			t.Fatalf("read %+v %v, wrote %+v %v", h, got, in, segments)
		}
	})
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	good := sample()
	if _, _, _, err := open(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for bit := range 8 {
			b := append([]byte(nil), good...)
			b[i] ^= 1 << bit
			if _, _, _, err := open(b); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
	for n := range len(good) {
		if _, _, _, err := open(good[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// A correct checksum proves only that the sender meant it.
func TestMalformedFramesAreRefusedInSpiteOfTheirChecksum(t *testing.T) {
	data := func(change func(*Header)) Header {
		h := Header{Type: Data, Sequence: 1, Records: 1, Segments: 1, Payload: 40, Raw: 40}
		change(&h)
		return h
	}
	for name, h := range map[string]Header{
		"unknown type":         {Type: 9},
		"unknown flag":         data(func(h *Header) { h.Flags = 1 << 7 }),
		"code":                 data(func(h *Header) { h.Code = 3 }),
		"sequence 0":           data(func(h *Header) { h.Sequence = 0 }),
		"raw size":             data(func(h *Header) { h.Raw = 41 }),
		"no segment":           data(func(h *Header) { h.Segments = 0 }),
		"many segments":        data(func(h *Header) { h.Segments, h.Payload, h.Raw = 65, 4000, 4000 }),
		"many records":         data(func(h *Header) { h.Records, h.Payload, h.Raw = 513, 4000, 4000 }),
		"too short":            data(func(h *Header) { h.Payload, h.Raw = 28, 28 }),
		"total without piece":  data(func(h *Header) { h.Total = 50 }),
		"piece with segments":  data(func(h *Header) { h.Flags, h.Total = Piece, 100 }),
		"piece beyond record":  data(func(h *Header) { h.Flags, h.Segments, h.Total = Piece, 0, 39 }),
		"giant record":         data(func(h *Header) { h.Flags, h.Segments, h.Total = Piece, 0, MaxRecord+1 }),
		"backlog with records": {Type: Backlog, Records: 1},
		"opened with payload":  {Type: Opened, Payload: 1},
		"long text":            {Type: Closed, Payload: MaxText + 1, Raw: MaxText + 1},
		"closed with sequence": {Type: Closed, Sequence: 1},
	} {
		var b [HeaderLen]byte
		h.Put(b[:])
		if _, err := Parse(b[:]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := sample()
	b[0] = Version + 1
	h, _ := Parse(sample())
	h.Put(b)
	b[0] = Version + 1
	resum(b)
	if _, err := Parse(b); err == nil || !strings.Contains(err.Error(), "version 2, this build reads 1") {
		t.Errorf("foreign version: %v", err)
	}
}

func resum(b []byte) {
	s := Sum(b[:44])
	b[44], b[45], b[46], b[47] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
}

func TestTablesThatLieAreRefused(t *testing.T) {
	wm := element.Event{Kind: element.Watermark}
	for name, segments := range map[string][]Segment{
		"bytes beyond the payload": {{Records: 1, Bytes: 900}},
		"bytes missing":            {{Records: 1, Bytes: 2}},
		"records without bytes":    {{Records: 3, Bytes: 0, Event: wm}, {Records: 3, Bytes: 7}},
		"bytes without records":    {{Records: 0, Bytes: 7}},
		"no event in the middle":   {{Records: 1, Bytes: 3}, {Records: 1, Bytes: 4, Event: wm}},
		"none with a time":         {{Records: 1, Bytes: 7, Event: element.Event{Time: 4}}},
		"unknown kind":             {{Records: 1, Bytes: 7, Event: element.Event{Kind: 9}}},
		"after the end":            {{Records: 1, Bytes: 3, Event: element.Event{Kind: element.End}}, {Records: 1, Bytes: 4}},
	} {
		if _, _, _, err := open(build(Header{Type: Data, Sequence: 1}, []byte("abcdefg"), segments)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h, _ := Parse(sample())
	h.Flags &^= Ended
	b := sample()
	h.Put(b)
	if _, _, _, err := open(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("end without its flag: %v", err)
	}
}

// Whatever the bytes: no panic, and what is accepted holds what the header says.
func FuzzFrame(f *testing.F) {
	f.Add(sample())
	f.Add(build(Header{Type: Data, Sequence: 1}, []byte("x"), []Segment{{Records: 1, Bytes: 1}}))
	var b [HeaderLen]byte
	(&Header{Type: Backlog, Channel: 3, Backlog: 2}).Put(b[:])
	f.Add(append([]byte(nil), b[:]...))
	(&Header{Type: Data, Flags: Piece, Sequence: 2, Payload: 5, Raw: 5, Total: 9000, Sum: Sum([]byte("hello"))}).Put(b[:])
	f.Add(append(append([]byte(nil), b[:]...), "hello"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderLen { // let the fuzzer past the checksums
			resum(b)
		}
		h, err := Parse(b)
		if err != nil {
			return
		}
		var again [HeaderLen]byte
		h.Put(again[:])
		if string(again[:]) != string(b[:HeaderLen]) {
			t.Fatalf("header %x is written as %x", b[:HeaderLen], again)
		}
		if h.Type != Data || h.Flags&(Piece|Compressed) != 0 || uint64(len(b)-HeaderLen) != uint64(h.Payload) {
			return
		}
		segments, records, err := h.Table(b[HeaderLen:], nil)
		if err != nil {
			return
		}
		if len(segments) == 0 || len(segments) > MaxSegments || h.Records > MaxRecords || len(records)+len(segments)*SegmentLen != int(h.Raw) {
			t.Fatalf("accepted %+v with %d segments", h, len(segments))
		}
		if string(AppendTable(nil, segments)) != string(b[HeaderLen+len(records):]) {
			t.Fatal("table is written differently")
		}
	})
}

func BenchmarkHeader(b *testing.B) {
	buf := sample()
	h, _ := Parse(buf)
	for b.Loop() {
		h.Put(buf)
		if _, err := Parse(buf); err != nil {
			b.Fatal(err)
		}
	}
}
