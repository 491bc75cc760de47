package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// version of the format (docs/format/spill.md).
const version = 1

const (
	headerSize = 32
	linkSize   = headerSize + 8
	magic0     = 'S'
	magic1     = 'P'
)

// kind of a block.
type kind uint8

const (
	kindRecords kind = 1 + iota // whole records
	kindPart                    // a part of a record that is larger than a block
	kindLink                    // the stream goes on elsewhere
)

// header of a block.
type header struct {
	kind        kind
	compression Compression
	stream      uint32
	sequence    uint32 // of the block in its stream, links included
	count       uint32 // records; in a part: bytes of the record from this part on
	raw         uint32 // bytes of the payload after decompression
	stored      uint32 // bytes of the payload in the file
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// put writes the header in front of its payload: b[headerSize:] holds the payload.
func (h *header) put(b []byte) {
	b[0], b[1], b[2], b[3] = magic0, magic1, version, byte(h.kind)|byte(h.compression)<<4
	binary.LittleEndian.PutUint32(b[4:], h.stream)
	binary.LittleEndian.PutUint32(b[8:], h.sequence)
	binary.LittleEndian.PutUint32(b[12:], h.count)
	binary.LittleEndian.PutUint32(b[16:], h.raw)
	binary.LittleEndian.PutUint32(b[20:], h.stored)
	binary.LittleEndian.PutUint32(b[24:], 0)
	sum := crc32.Update(crc32.Checksum(b[:28], castagnoli), castagnoli, b[headerSize:headerSize+int(h.stored)])
	binary.LittleEndian.PutUint32(b[28:], sum)
}

var errCorrupt = errors.New("corrupt")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCorrupt, fmt.Sprintf(format, args...))
}

// limits of what a reader believes before the checksum has been verified.
type limits struct {
	stream   uint32
	sequence uint32
	block    int   // most raw bytes of a block
	largest  int64 // bytes of the largest record of the stream
}

// parse reads a header and checks all that needs no payload.
func parse(b []byte, l limits) (header, error) {
	h := header{
		kind: kind(b[3] & 0xf), compression: Compression(b[3] >> 4),
		stream: binary.LittleEndian.Uint32(b[4:]), sequence: binary.LittleEndian.Uint32(b[8:]),
		count: binary.LittleEndian.Uint32(b[12:]), raw: binary.LittleEndian.Uint32(b[16:]), stored: binary.LittleEndian.Uint32(b[20:]),
	}
	switch {
	case b[0] != magic0 || b[1] != magic1:
		return h, corrupt("no block begins here")
	case b[2] != version:
		return h, corrupt("version %d", b[2])
	case h.kind < kindRecords || h.kind > kindLink || h.compression > Zstd || binary.LittleEndian.Uint32(b[24:]) != 0:
		return h, corrupt("unknown kind of block")
	case h.stream != l.stream || h.sequence != l.sequence:
		return h, corrupt("block %d of stream %d where block %d of stream %d belongs", h.sequence, h.stream, l.sequence, l.stream)
	case int64(h.raw) > int64(l.block) || h.stored > h.raw || h.raw == 0:
		return h, corrupt("block of %d bytes, stored as %d", h.raw, h.stored)
	case h.compression == None && h.stored != h.raw:
		return h, corrupt("plain block of %d bytes, stored as %d", h.raw, h.stored)
	case h.kind == kindRecords && (h.count == 0 || h.count > h.raw):
		return h, corrupt("%d records in %d bytes", h.count, h.raw)
	case h.kind == kindPart && (int64(h.count) > l.largest || h.raw > h.count):
		return h, corrupt("part of %d bytes of a record of %d", h.raw, h.count)
	case h.kind == kindLink && (h.raw != linkSize-headerSize || h.compression != None || h.count != 0):
		return h, corrupt("malformed link")
	}
	return h, nil
}

// verify compares the checksum of a block, header and payload.
func verify(b []byte) error {
	if sum := crc32.Update(crc32.Checksum(b[:28], castagnoli), castagnoli, b[headerSize:]); sum != binary.LittleEndian.Uint32(b[28:]) {
		return corrupt("checksum differs")
	}
	return nil
}
