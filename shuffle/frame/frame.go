package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/sluiceio/sluice/flow/element"
)

const (
	// Version of the layout.
	Version = 1
	// HeaderLen and SegmentLen are in bytes.
	HeaderLen  = 48
	SegmentLen = 28
	// MaxRecords bounds the records of one frame.
	MaxRecords = 512
	// MaxSegments bounds the segments, and so the events, of one frame.
	MaxSegments = 64
	// MaxRecord bounds one encoded record, in bytes.
	MaxRecord = 64 << 20
	// MaxText bounds the payload of a Closed frame, in bytes.
	MaxText = 1 << 10
)

// ErrCorrupt is wrapped by every error of decoding.
var ErrCorrupt = errors.New("corrupt frame")

// Type says what a frame is for.
type Type uint8

const (
	// Data carries records and events. It costs one credit.
	Data Type = 1
	// Backlog announces frames that wait for credit. It costs none.
	Backlog Type = 2
	// Opened answers a partition request: the channel is open.
	Opened Type = 3
	// Closed refuses a partition request or ends a channel early. Code says why, the payload says it in words.
	Closed Type = 4
)

// Flags of a Data frame.
type Flags uint8

const (
	// Compressed: the payload is an s2 block of Raw bytes.
	Compressed Flags = 1 << iota
	// Piece: the payload is a part of one record that is Total bytes long; it continues until Total is reached.
	Piece
	// Ended: the last event is the end of the channel's input.
	Ended

	allFlags = Compressed | Piece | Ended
)

// Header stands before every payload.
type Header struct {
	Type     Type
	Flags    Flags
	Code     uint8  // Closed only: an exchangepb.Refusal
	Channel  uint32 // chosen by the consumer, unique on the stream
	Sequence uint64 // of Data frames on this channel: 1, 2, 3, …
	Records  uint32 // sum over all segments; in the last piece of a record 1
	Segments uint32
	Payload  uint32 // bytes that follow
	Raw      uint32 // bytes of the payload after decompression
	Total    uint32 // Piece only: bytes of the whole record
	Backlog  uint32 // frames that the producer holds behind this one
	Sum      uint32 // checksum of the payload as sent
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of the format: CRC-32C.
func Sum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Put writes h into the first HeaderLen bytes of b.
func (h *Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1], b[2], b[3] = Version, byte(h.Type), byte(h.Flags), h.Code
	binary.LittleEndian.PutUint32(b[4:], h.Channel)
	binary.LittleEndian.PutUint64(b[8:], h.Sequence)
	binary.LittleEndian.PutUint32(b[16:], h.Records)
	binary.LittleEndian.PutUint32(b[20:], h.Segments)
	binary.LittleEndian.PutUint32(b[24:], h.Payload)
	binary.LittleEndian.PutUint32(b[28:], h.Raw)
	binary.LittleEndian.PutUint32(b[32:], h.Total)
	binary.LittleEndian.PutUint32(b[36:], h.Backlog)
	binary.LittleEndian.PutUint32(b[40:], h.Sum)
	binary.LittleEndian.PutUint32(b[44:], Sum(b[:44]))
}

// Parse reads and checks the header at the front of b.
func Parse(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, fmt.Errorf("%w: %d bytes are no header", ErrCorrupt, len(b))
	}
	if sum := binary.LittleEndian.Uint32(b[44:]); sum != Sum(b[:44]) {
		return Header{}, fmt.Errorf("%w: header checksum %08x, want %08x", ErrCorrupt, sum, Sum(b[:44]))
	}
	if b[0] != Version {
		return Header{}, fmt.Errorf("%w: version %d, this build reads %d", ErrCorrupt, b[0], Version)
	}
	h := Header{
		Type: Type(b[1]), Flags: Flags(b[2]), Code: b[3],
		Channel:  binary.LittleEndian.Uint32(b[4:]),
		Sequence: binary.LittleEndian.Uint64(b[8:]),
		Records:  binary.LittleEndian.Uint32(b[16:]),
		Segments: binary.LittleEndian.Uint32(b[20:]),
		Payload:  binary.LittleEndian.Uint32(b[24:]),
		Raw:      binary.LittleEndian.Uint32(b[28:]),
		Total:    binary.LittleEndian.Uint32(b[32:]),
		Backlog:  binary.LittleEndian.Uint32(b[36:]),
		Sum:      binary.LittleEndian.Uint32(b[40:]),
	}
	return h, h.check()
}

func (h *Header) check() error {
	switch h.Type {
	case Data:
		return h.checkData()
	case Backlog, Opened:
		if *h != (Header{Type: h.Type, Channel: h.Channel, Backlog: h.Backlog}) {
			return fmt.Errorf("%w: type %d with more than a channel and a backlog", ErrCorrupt, h.Type)
		}
	case Closed:
		if h.Payload > MaxText || h.Raw != h.Payload ||
			*h != (Header{Type: Closed, Code: h.Code, Channel: h.Channel, Payload: h.Payload, Raw: h.Raw, Sum: h.Sum}) {
			return fmt.Errorf("%w: malformed closing", ErrCorrupt)
		}
	default:
		return fmt.Errorf("%w: unknown type %d", ErrCorrupt, h.Type)
	}
	return nil
}

func (h *Header) checkData() error {
	piece := h.Flags&Piece != 0
	switch {
	case h.Flags&^allFlags != 0, h.Code != 0:
		return fmt.Errorf("%w: flags %#x, code %d", ErrCorrupt, h.Flags, h.Code)
	case h.Sequence == 0:
		return fmt.Errorf("%w: sequence 0", ErrCorrupt)
	case h.Flags&Compressed == 0 && h.Raw != h.Payload:
		return fmt.Errorf("%w: %d bytes of payload called %d", ErrCorrupt, h.Payload, h.Raw)
	case piece && (h.Segments != 0 || h.Records > 1 || h.Flags&Ended != 0 || h.Raw == 0 || h.Raw > h.Total || h.Total > MaxRecord):
		return fmt.Errorf("%w: piece of %d bytes of a record of %d", ErrCorrupt, h.Raw, h.Total)
	case !piece && (h.Segments == 0 || h.Segments > MaxSegments || h.Records > MaxRecords || h.Total != 0):
		return fmt.Errorf("%w: %d segments, %d records, total %d", ErrCorrupt, h.Segments, h.Records, h.Total)
	case !piece && uint64(h.Raw) < uint64(h.Segments)*SegmentLen+uint64(h.Records):
		return fmt.Errorf("%w: %d segments and %d records in %d bytes", ErrCorrupt, h.Segments, h.Records, h.Raw)
	}
	return nil
}

// Segment is a run of records and the event behind them. A payload is the encoded records of all its segments,
// followed by the table of the segments. The first record of a segment is encoded without a predecessor.
type Segment struct {
	Records uint32
	Bytes   uint32
	Event   element.Event // None: only in the last segment
}

// AppendTable writes the table of segments behind the records.
func AppendTable(dst []byte, segments []Segment) []byte {
	for i := range segments {
		s := &segments[i]
		dst = binary.LittleEndian.AppendUint32(dst, s.Records)
		dst = binary.LittleEndian.AppendUint32(dst, s.Bytes)
		dst = append(dst, byte(s.Event.Kind), 0, 0, 0)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.Event.Time))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.Event.Checkpoint))
	}
	return dst
}

// Verify checks the payload as sent against the header.
func (h *Header) Verify(payload []byte) error {
	if uint64(len(payload)) != uint64(h.Payload) {
		return fmt.Errorf("%w: %d bytes of payload, header says %d", ErrCorrupt, len(payload), h.Payload)
	}
	if sum := Sum(payload); sum != h.Sum {
		return fmt.Errorf("%w: payload checksum %08x, want %08x", ErrCorrupt, sum, h.Sum)
	}
	return nil
}

// Table reads the segments of an uncompressed payload into dst and returns them with the encoded records.
func (h *Header) Table(raw []byte, dst []Segment) (segments []Segment, records []byte, err error) {
	if h.Flags&Piece != 0 || uint64(len(raw)) != uint64(h.Raw) {
		return nil, nil, fmt.Errorf("%w: no table in %d bytes", ErrCorrupt, len(raw))
	}
	split := len(raw) - int(h.Segments)*SegmentLen
	if split < 0 {
		return nil, nil, fmt.Errorf("%w: %d segments in %d bytes", ErrCorrupt, h.Segments, len(raw))
	}
	var count, bytes uint64
	dst = dst[:0]
	for table := raw[split:]; len(table) > 0; table = table[SegmentLen:] {
		s, err := ParseSegment(table)
		if err == nil {
			err = s.check(len(table) == SegmentLen)
		}
		if err != nil {
			return nil, nil, err
		}
		count += uint64(s.Records)
		bytes += uint64(s.Bytes)
		dst = append(dst, s)
	}
	ended := dst[len(dst)-1].Event.Kind == element.End
	if count != uint64(h.Records) || bytes != uint64(split) || ended != (h.Flags&Ended != 0) {
		return nil, nil, fmt.Errorf("%w: segments hold %d records in %d bytes, header says %d in %d", ErrCorrupt, count, bytes, h.Records, split)
	}
	return dst, raw[:split], nil
}

// ParseSegment reads an entry of a table from the front of b, which has SegmentLen bytes. It judges what holds for every
// segment, in a frame or in a block of a stored result.
func ParseSegment(b []byte) (Segment, error) {
	s := Segment{
		Records: binary.LittleEndian.Uint32(b),
		Bytes:   binary.LittleEndian.Uint32(b[4:]),
		Event: element.Event{
			Kind:       element.Kind(b[8]),
			Time:       element.Time(binary.LittleEndian.Uint64(b[12:])),
			Checkpoint: element.CheckpointID(binary.LittleEndian.Uint64(b[20:])),
		},
	}
	switch k := s.Event.Kind; {
	case k > element.End || b[9]|b[10]|b[11] != 0:
		return s, fmt.Errorf("%w: event of kind %d", ErrCorrupt, k)
	case k == element.None && s.Event != element.Event{}:
		return s, fmt.Errorf("%w: no event, with a time", ErrCorrupt)
	case s.Records > s.Bytes || s.Records == 0 && s.Bytes != 0:
		return s, fmt.Errorf("%w: segment of %d records in %d bytes", ErrCorrupt, s.Records, s.Bytes)
	}
	return s, nil
}

// check judges what holds in a frame.
func (s *Segment) check(last bool) error {
	switch k := s.Event.Kind; {
	case k == element.None && !last:
		return fmt.Errorf("%w: segment without event", ErrCorrupt)
	case k == element.End && !last:
		return fmt.Errorf("%w: segment after the end", ErrCorrupt)
	}
	return nil
}
