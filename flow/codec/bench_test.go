package codec

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/element"
)

// bid is a record of usual size: numbers, two strings, a time.
type bid struct {
	Auction, Bidder, Price, Channel, Seq int64
	URL, Extra                           string
	DateTime                             time.Time
}

func bids(n int) []bid {
	r := make([]bid, n)
	x := uint64(1)
	for i := range r {
		x = x*6364136223846793005 + 1442695040888963407
		r[i] = bid{Auction: 1000 + int64(x>>50), Bidder: 1000 + int64(x>>48&0xffff), Price: int64(x >> 40 & 0xffffff),
			Channel: int64(x >> 20 & 3), Seq: int64(i) + 1e6,
			URL:   fmt.Sprintf("https://www.nexmark.com/item.htm?query=%d", x>>44&0xffff),
			Extra: fmt.Sprintf("extra-%016x", x), DateTime: time.UnixMilli(1_700_000_000_000 + int64(i)).UTC()}
	}
	return r
}

// The baseline: what a careful user would write by hand, varints and copied strings.

func handAppend(b []byte, e *bid) []byte {
	b = binary.AppendVarint(b, e.Auction)
	b = binary.AppendVarint(b, e.Bidder)
	b = binary.AppendVarint(b, e.Price)
	b = binary.AppendVarint(b, e.Channel)
	b = binary.AppendVarint(b, e.Seq)
	b = binary.AppendUvarint(b, uint64(len(e.URL)))
	b = append(b, e.URL...)
	b = binary.AppendUvarint(b, uint64(len(e.Extra)))
	b = append(b, e.Extra...)
	return binary.LittleEndian.AppendUint64(b, uint64(e.DateTime.UnixNano()))
}

func handInt(b []byte) (int64, []byte) { v, n := binary.Varint(b); return v, b[n:] }

func handString(b []byte) (string, []byte) {
	v, n := binary.Uvarint(b)
	b = b[n:]
	return string(b[:v]), b[v:]
}

func handDecode(b []byte, e *bid) []byte {
	e.Auction, b = handInt(b)
	e.Bidder, b = handInt(b)
	e.Price, b = handInt(b)
	e.Channel, b = handInt(b)
	e.Seq, b = handInt(b)
	e.URL, b = handString(b)
	e.Extra, b = handString(b)
	e.DateTime = time.Unix(0, int64(binary.LittleEndian.Uint64(b))).UTC()
	return b[8:]
}

func perRecord(b *testing.B, records, bytes int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
	b.ReportMetric(float64(bytes)/float64(records), "B/record")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBid compares the compiled codec with the hand-written one.
func BenchmarkBid(b *testing.B) {
	const n = 1024
	in := &element.Batch[bid]{}
	for i, v := range bids(n) {
		in.Append(v, element.Time(1_700_000_000_000_000+int64(i)*1000))
	}
	c, err := Of[bid](nil)
	if err != nil {
		b.Fatal(err)
	}
	hand := make([]byte, 0, 1<<20)
	b.Run("encode/hand", func(b *testing.B) {
		for b.Loop() {
			hand = hand[:0]
			for i := range in.Vals {
				hand = handAppend(hand, &in.Vals[i])
			}
		}
		perRecord(b, n, len(hand))
	})
	buf := make([]byte, 0, 1<<20)
	b.Run("encode/compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = buf[:0]
			for i := range in.Vals {
				buf, _ = c.Append(buf, &in.Vals[i])
			}
		}
		perRecord(b, n, len(buf))
	})
	frame := make([]byte, 0, 1<<20)
	b.Run("encode/frame", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frame, _ = appendBatch(c, frame[:0], in)
		}
		perRecord(b, n, len(frame))
	})
	dst := make([]bid, n)
	b.Run("decode/hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := hand
			for i := range dst {
				p = handDecode(p, &dst[i])
			}
		}
		perRecord(b, n, len(hand))
	})
	b.Run("decode/compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := buf
			for i := range dst {
				p, _ = c.Decode(p, &dst[i])
			}
		}
		perRecord(b, n, len(buf))
	})
	out := &element.Batch[bid]{}
	b.Run("decode/frame", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out.Reset()
			if err := decodeBatch(c, frame, out); err != nil {
				b.Fatal(err)
			}
		}
		perRecord(b, n, len(frame))
	})
}

// BenchmarkHasher compares key hashes with the bare functions under them.
func BenchmarkHasher(b *testing.B) {
	ints, _ := Hasher[int64]()
	b.Run("int64", func(b *testing.B) {
		var x uint64
		for b.Loop() {
			x += ints(int64(x))
		}
	})
	strs, _ := Hasher[string]()
	b.Run("string", func(b *testing.B) {
		for b.Loop() {
			strs("a key of 18 bytes.")
		}
	})
	type pair struct {
		A, B string
	}
	pairs, _ := Hasher[pair]()
	b.Run("pair", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pairs(pair{"JFK", "LAX"})
		}
	})
	type words struct{ A, B int64 }
	ws, _ := Hasher[words]()
	b.Run("words", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ws(words{1, 2})
		}
	})
}
