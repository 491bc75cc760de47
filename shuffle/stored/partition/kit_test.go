package partition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/frame"
)

var testName = Name{Job: "flights-1", JobEpoch: 2, Region: 3, RegionEpoch: 4, Edge: 5, Producer: 6, Attempt: 7}

// file builds the two files of a partition in memory.
type file struct {
	t       testing.TB
	coder   *Coder
	summary Summary
	data    []byte
	index   []byte
	extents []Extent
	blocks  [][]byte // as they lie in the file, in order
}

func newFile(t testing.TB, consumers int32) *file {
	t.Helper()
	coder, err := NewCoder(1)
	if err != nil {
		t.Fatal(err)
	}
	return &file{
		t: t, coder: coder, summary: Summary{Name: testName, First: 10, Consumers: consumers, End: element.MaxTime},
		data: AppendDataHeader(nil, testName), index: AppendIndexHeader(nil), extents: make([]Extent, consumers),
	}
}

type rec struct {
	Key  int64
	Text string
}

// payload is n records and an event behind them, then one more record.
func payload(t testing.TB, n int, text string, ev element.Event) (p []byte, segments uint16, records uint32) {
	t.Helper()
	c, err := codec.Of[rec](nil)
	if err != nil {
		t.Fatal(err)
	}
	var prev element.Time
	for i := range n {
		if p, err = c.AppendRecord(p, &rec{int64(i), text}, element.Time(1000*i), prev); err != nil {
			t.Fatal(err)
		}
		prev = element.Time(1000 * i)
	}
	table := []frame.Segment{{Records: uint32(n), Bytes: uint32(len(p)), Event: ev}}
	if ev.Kind != element.None {
		before := len(p)
		if p, err = c.AppendRecord(p, &rec{-1, text}, 7, 0); err != nil {
			t.Fatal(err)
		}
		table = append(table, frame.Segment{Records: 1, Bytes: uint32(len(p) - before)})
		n++
	}
	return frame.AppendTable(p, table), uint16(len(table)), uint32(n)
}

// add appends a block to a subpartition of the open run.
func (f *file) add(sub int, form Form, p []byte, segments uint16, records uint32) {
	b := Block{Segments: segments, Records: records}
	start := len(f.data)
	out := make([]byte, BlockHeader, BlockHeader+PackRoom(len(p)))
	out = f.coder.Pack(out, p, form, &b)
	b.Put(out)
	e := &f.extents[sub]
	if e.Blocks == 0 {
		e.Offset = int64(start)
	}
	e.Blocks++
	e.Records += records
	e.Bytes += b.Size()
	e.Sum = SumHeader(e.Sum, out)
	f.summary.Blocks++
	f.summary.Records += int64(records)
	f.data = append(f.data, out...)
	f.blocks = append(f.blocks, out)
}

func (f *file) endRun() {
	for sub, e := range f.extents {
		if e.Blocks == 0 {
			e.Offset = int64(len(f.data))
		}
		f.index = AppendExtent(f.index, e, f.summary.Runs, int32(sub))
		f.extents[sub] = Extent{}
	}
	f.summary.Runs++
}

func (f *file) end() {
	f.summary.DataBytes = int64(len(f.data))
	f.index = AppendFooter(f.index, &f.summary)
}

// sample has three subpartitions and two runs, with a block of each form; the last subpartition is empty.
func sample(t testing.TB) *file {
	f := newFile(t, 3)
	p, s, n := payload(t, 3, "abc", element.Event{})
	f.add(0, Plain, p, s, n)
	p, s, n = payload(t, 40, "a text that repeats itself, and repeats itself", element.Event{Kind: element.Watermark, Time: 1234})
	f.add(1, S2, p, s, n)
	f.add(1, Zstd, p, s, n)
	f.endRun()
	p, s, n = payload(t, 2, "z", element.Event{Kind: element.Idle})
	f.add(1, Plain, p, s, n)
	f.endRun()
	f.end()
	return f
}

// scan reads all chunks of a consumer's subpartition, as a reader does.
func scan(index, data []byte, consumer int32, from int64, bufBytes int) (chunks [][]byte, err error) {
	s, err := ReadSummary(bytes.NewReader(index), int64(len(index)))
	if err != nil {
		return nil, err
	}
	if s.Name != testName {
		return nil, fmt.Errorf("%w: another name", ErrCorrupt)
	}
	if err := s.CheckData(bytes.NewReader(data), int64(len(data))); err != nil {
		return nil, err
	}
	x, err := NewScanner(s, consumer, bytes.NewReader(index), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if err := x.SkipTo(from); err != nil {
		return nil, err
	}
	for {
		buf := make([]byte, bufBytes)
		n, err := x.Next(buf)
		if errors.Is(err, io.EOF) {
			return chunks, nil
		}
		if err != nil {
			return chunks, err
		}
		if n == 0 {
			return chunks, errors.New("an empty chunk")
		}
		chunks = append(chunks, buf[:n])
	}
}

// open checks and decodes every block of a chunk of whole blocks.
func open(coder *Coder, chunk []byte) (records int, err error) {
	for len(chunk) > 0 {
		b, err := ParseBlock(chunk)
		if err != nil {
			return records, err
		}
		if b.Size() > int64(len(chunk)) {
			return records, errors.New("a block is cut")
		}
		stored := chunk[BlockHeader:b.Size()]
		if err := b.Verify(stored); err != nil {
			return records, err
		}
		raw, err := coder.Unpack(nil, stored, &b)
		if err != nil {
			return records, err
		}
		segments, encoded, err := b.Table(raw, nil)
		if err != nil {
			return records, err
		}
		var batch element.Batch[rec]
		for _, s := range segments {
			if err := recCodec.DecodeRecords(encoded[:s.Bytes], int(s.Records), &batch); err != nil {
				return records, err
			}
			encoded = encoded[s.Bytes:]
		}
		records += batch.Len()
		chunk = chunk[b.Size():]
	}
	return records, nil
}

var recCodec = func() *codec.Codec[rec] {
	c, err := codec.Of[rec](nil)
	if err != nil {
		panic(err)
	}
	return c
}()
