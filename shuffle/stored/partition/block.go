package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/shuffle/frame"
)

// ErrCorrupt is wrapped by every error of decoding.
var ErrCorrupt = errors.New("corrupt data")

// Sizes in bytes.
const (
	// BlockHeader stands before the payload of a block.
	BlockHeader = 24
	// MaxBlock bounds a block with its header, before compression, unless it holds a single record.
	MaxBlock = 64 << 10
	// MaxRecord bounds one encoded record.
	MaxRecord = frame.MaxRecord
	// maxLarge bounds the payload of a block that holds a single record, with the events before it.
	maxLarge = MaxRecord + largeSegments*frame.SegmentLen

	largeSegments = 3
	// BatchRecords bounds the records of a segment, so that one is a batch.
	BatchRecords = frame.MaxRecords
)

// Form is how the payload of a block is stored.
type Form uint8

const (
	// Plain is as it is.
	Plain Form = iota
	// S2 is one s2 block.
	S2
	// Zstd is one zstd frame.
	Zstd
)

// Block is the header of a block.
type Block struct {
	Form     Form
	Segments uint16
	Records  uint32 // of all segments
	Stored   uint32 // bytes of the payload as stored
	Raw      uint32 // bytes of the payload after decompression
	Sum      uint32 // checksum of the payload as stored
}

// Size is the length of the block in the file, in bytes.
func (b *Block) Size() int64 { return BlockHeader + int64(b.Stored) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of the format: CRC-32C.
func Sum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Put writes b into the first BlockHeader bytes of dst.
func (b *Block) Put(dst []byte) {
	_ = dst[BlockHeader-1]
	dst[0], dst[1] = byte(b.Form), 0
	binary.LittleEndian.PutUint16(dst[2:], b.Segments)
	binary.LittleEndian.PutUint32(dst[4:], b.Records)
	binary.LittleEndian.PutUint32(dst[8:], b.Stored)
	binary.LittleEndian.PutUint32(dst[12:], b.Raw)
	binary.LittleEndian.PutUint32(dst[16:], b.Sum)
	binary.LittleEndian.PutUint32(dst[20:], Sum(dst[:20]))
}

// ParseBlock reads and checks the header at the front of b.
func ParseBlock(b []byte) (Block, error) {
	if len(b) < BlockHeader {
		return Block{}, fmt.Errorf("%w: %d bytes are no header of a block", ErrCorrupt, len(b))
	}
	if sum := binary.LittleEndian.Uint32(b[20:]); sum != Sum(b[:20]) {
		return Block{}, fmt.Errorf("%w: header checksum %08x, want %08x", ErrCorrupt, sum, Sum(b[:20]))
	}
	h := Block{
		Form:     Form(b[0]),
		Segments: binary.LittleEndian.Uint16(b[2:]),
		Records:  binary.LittleEndian.Uint32(b[4:]),
		Stored:   binary.LittleEndian.Uint32(b[8:]),
		Raw:      binary.LittleEndian.Uint32(b[12:]),
		Sum:      binary.LittleEndian.Uint32(b[16:]),
	}
	return h, h.check(b[1])
}

func (b *Block) check(reserved byte) error {
	least := uint64(b.Segments)*frame.SegmentLen + uint64(b.Records)
	switch {
	case b.Form > Zstd || reserved != 0:
		return fmt.Errorf("%w: block of form %d, reserved %d", ErrCorrupt, b.Form, reserved)
	case b.Segments == 0 || b.Records == 0 || uint64(b.Raw) < least:
		return fmt.Errorf("%w: %d segments and %d records in %d bytes", ErrCorrupt, b.Segments, b.Records, b.Raw)
	case b.Raw > MaxBlock-BlockHeader && (b.Records != 1 || b.Segments > largeSegments || b.Raw > maxLarge):
		return fmt.Errorf("%w: block of %d records in %d bytes", ErrCorrupt, b.Records, b.Raw)
	case b.Stored == 0 || b.Stored > b.Raw || b.Form == Plain && b.Stored != b.Raw:
		return fmt.Errorf("%w: %d bytes stored as %d in form %d", ErrCorrupt, b.Raw, b.Stored, b.Form)
	}
	return nil
}

// Verify checks the payload as stored against the header.
func (b *Block) Verify(payload []byte) error {
	if uint64(len(payload)) != uint64(b.Stored) {
		return fmt.Errorf("%w: %d bytes of payload, header says %d", ErrCorrupt, len(payload), b.Stored)
	}
	if sum := Sum(payload); sum != b.Sum {
		return fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, sum, b.Sum)
	}
	return nil
}

// Table reads the segments of a payload after decompression into dst, and returns them with the encoded records.
func (b *Block) Table(raw []byte, dst []frame.Segment) (segments []frame.Segment, records []byte, err error) {
	split := len(raw) - int(b.Segments)*frame.SegmentLen
	if uint64(len(raw)) != uint64(b.Raw) || split < 0 {
		return nil, nil, fmt.Errorf("%w: no table of %d segments in %d bytes", ErrCorrupt, b.Segments, len(raw))
	}
	var count, bytes uint64
	dst = dst[:0]
	for table := raw[split:]; len(table) > 0; table = table[frame.SegmentLen:] {
		s, err := frame.ParseSegment(table)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if err := checkSegment(s); err != nil {
			return nil, nil, err
		}
		count += uint64(s.Records)
		bytes += uint64(s.Bytes)
		dst = append(dst, s)
	}
	if count != uint64(b.Records) || bytes != uint64(split) {
		return nil, nil, fmt.Errorf("%w: segments hold %d records in %d bytes, header says %d in %d", ErrCorrupt, count, bytes, b.Records, split)
	}
	return dst, raw[:split], nil
}

// checkSegment: what is stored in a block, beyond what every segment is like.
func checkSegment(s frame.Segment) error {
	switch ev := s.Event; {
	case ev.Kind != element.None && ev.Kind != element.Watermark && ev.Kind != element.Idle,
		ev.Checkpoint != 0, ev.Kind != element.Watermark && ev.Time != 0:
		return fmt.Errorf("%w: event %+v in a stored result", ErrCorrupt, ev)
	case s.Records > BatchRecords:
		return fmt.Errorf("%w: segment of %d records", ErrCorrupt, s.Records)
	case ev.Kind == element.None && s.Records == 0:
		return fmt.Errorf("%w: segment of nothing", ErrCorrupt)
	}
	return nil
}
