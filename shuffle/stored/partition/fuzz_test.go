package partition

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzIndex: whatever the bytes of both files, reading ends, stays within bounds, and hands out only chunks of whole
// blocks or pieces of large ones.
func FuzzIndex(f *testing.F) {
	s := sample(f)
	f.Add(s.index, s.data, int32(11), int64(0))
	f.Add(s.index, s.data, int32(10), int64(1))
	f.Add(s.index[:len(s.index)-5], s.data, int32(10), int64(0))
	f.Add([]byte{}, []byte{}, int32(0), int64(0))
	f.Fuzz(func(t *testing.T, index, data []byte, consumer int32, from int64) {
		mend(index, data)
		if from < 0 {
			return
		}
		chunks, err := scan(index, data, consumer, from, MaxBlock)
		if err == nil && len(bytes.Join(chunks, nil)) > len(data) {
			t.Fatalf("%d bytes were read from %d", len(bytes.Join(chunks, nil)), len(data))
		}
	})
}

// mend puts right checksums into the footer and the headers of the files, so that the fuzzer gets behind them.
func mend(index, data []byte) {
	if len(index) >= FileHeader+tailLen {
		copy(index, AppendIndexHeader(nil))
		tail := index[len(index)-tailLen:]
		copy(tail[8:], indexMagic)
		if n := int(binary.LittleEndian.Uint32(tail)); n >= 0 && n <= len(index)-tailLen {
			binary.LittleEndian.PutUint32(tail[4:], Sum(index[len(index)-tailLen-n:len(index)-tailLen+4]))
		}
	}
	if len(data) >= FileHeader {
		copy(data, AppendDataHeader(nil, testName))
	}
}

// FuzzExtent: what is accepted lies within the data file.
func FuzzExtent(f *testing.F) {
	f.Add(AppendExtent(nil, Extent{Offset: 16, Bytes: 100, Blocks: 1, Records: 3, Sum: 7}, 2, 3), int64(200))
	f.Fuzz(func(t *testing.T, b []byte, length int64) {
		if len(b) >= ExtentLen {
			binary.LittleEndian.PutUint32(b[ExtentLen-4:], extentSum(b[:ExtentLen-4], 2, 3))
		}
		e, err := ParseExtent(b, 2, 3, length)
		if err == nil && (e.Offset < FileHeader || e.Bytes < 0 || e.Offset+e.Bytes > length || int64(e.Blocks)*BlockHeader > e.Bytes) {
			t.Fatalf("accepted %+v in a file of %d bytes", e, length)
		}
	})
}

// FuzzBlock: a block of any bytes is refused, or decodes within the bounds of its header.
func FuzzBlock(f *testing.F) {
	s := sample(f)
	for _, b := range s.blocks {
		f.Add(b)
	}
	coder := s.coder
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < BlockHeader {
			return
		}
		binary.LittleEndian.PutUint32(b[16:], Sum(b[BlockHeader:])) // get behind the checksums
		binary.LittleEndian.PutUint32(b[20:], Sum(b[:20]))
		h, err := ParseBlock(b)
		if err != nil || h.Verify(b[BlockHeader:]) != nil {
			return
		}
		raw, err := coder.Unpack(nil, b[BlockHeader:], &h)
		if err != nil {
			return
		}
		segments, records, err := h.Table(raw, nil)
		if err != nil {
			return
		}
		var count, bytes int
		for _, s := range segments {
			count += int(s.Records)
			bytes += int(s.Bytes)
		}
		if count != int(h.Records) || bytes != len(records) || len(raw) != int(h.Raw) || len(segments) != int(h.Segments) {
			t.Fatalf("accepted %+v with %d records in %d bytes", h, count, bytes)
		}
	})
}

// FuzzName: only what is written is read back.
func FuzzName(f *testing.F) {
	f.Add("flights-1", "2-3-4", "e5-p6-a7")
	f.Add("..", "2-3-4", "e5-p6-a7")
	f.Fuzz(func(t *testing.T, job, region, base string) {
		n, ok := ParsePath(job, region, base)
		if ok && n.Path() != job+"/"+region+"/"+base {
			t.Fatalf("%q %q %q is read as %+v", job, region, base, n)
		}
	})
}
