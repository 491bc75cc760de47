package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrCorrupt is wrapped by every error about bytes that no Writer wrote, or that changed since.
var ErrCorrupt = errors.New("corrupt chunk")

const (
	magic   = "SLUICE-C" // first eight bytes of a chunk; the trailer ends with them again
	version = 1

	// blockSize is the number of bytes after which a block is closed. An entry is never split, so that blocks may be
	// longer.
	blockSize = 64 << 10
	// MaxEntry bounds key and value of an entry together, in bytes.
	MaxEntry = 64 << 20
	// maxBlock bounds a block in memory.
	maxBlock = blockSize + MaxEntry + 3*binary.MaxVarintLen64
	// maxHeader bounds the header and the index, in bytes.
	maxHeader = 64 << 20

	preambleSize    = len(magic) + 2 + 4 + 4 // magic, version, length and checksum of the header
	blockHeaderSize = 1 + 4 + 4 + 4          // form, length stored, length in memory, checksum
	trailerSize     = 8 + 4 + 4 + len(magic) // offset, length and checksum of the index, magic
)

// Forms of a block.
const (
	stored     = 0 // as it is
	compressed = 1 // s2
)

// Kind is what a state of an operator is.
type Kind uint8

const (
	// Value is one value per key. The key of an entry is the key.
	Value Kind = iota + 1
	// List is a list per key. The key of an entry is the key and the number of a run of elements, the value that run.
	List
	// Map is a map per key. The key of an entry is the key and the key in the map.
	Map
)

// State describes one state of the operator.
type State struct {
	Name string
	Kind Kind
	// Sub is the schema of what follows the key in the key of an entry; empty for Value.
	Sub string
	// Value is the schema of the value: for List that of an element.
	Value string
}

// Header describes a chunk.
type Header struct {
	// MaxParallelism is the number of key groups of the job.
	MaxParallelism int
	// Key is the schema of the keys.
	Key string
	// States by the number that entries call them.
	States []State
}

func (h *Header) validate() error {
	if h.MaxParallelism < 1 || h.MaxParallelism > 1<<15 {
		return fmt.Errorf("max parallelism %d", h.MaxParallelism)
	}
	names := map[string]bool{}
	for i, s := range h.States {
		if s.Kind < Value || s.Kind > Map || s.Name == "" || names[s.Name] {
			return fmt.Errorf("state %d: name %q, kind %d", i, s.Name, s.Kind)
		}
		names[s.Name] = true
	}
	return nil
}

func (h *Header) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(h.MaxParallelism))
	b = appendBytes(b, h.Key)
	b = binary.AppendUvarint(b, uint64(len(h.States)))
	for _, s := range h.States {
		b = append(b, byte(s.Kind))
		b = appendBytes(b, s.Name)
		b = appendBytes(b, s.Sub)
		b = appendBytes(b, s.Value)
	}
	return b
}

func parseHeader(b []byte) (*Header, error) {
	d := decoder{rest: b}
	h := &Header{MaxParallelism: int(min(d.uvarint(), 1<<16)), Key: string(d.bytes())}
	states := d.count(4)
	for range states {
		s := State{Kind: Kind(d.byte()), Name: string(d.bytes()), Sub: string(d.bytes()), Value: string(d.bytes())}
		h.States = append(h.States, s)
	}
	if err := d.finish(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("header: %w: %w", ErrCorrupt, err)
	}
	return h, nil
}

// Entry is one entry of a state. Key and Value are valid until the next one is asked for.
type Entry struct {
	State   int // index of Header.States
	Group   int // key group
	Deleted bool
	Key     []byte
	Value   []byte // nil if Deleted
}

func appendEntry(b []byte, state int, deleted uint64, key, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(state)<<1|deleted)
	b = appendBytes(b, key)
	if deleted == 0 {
		b = appendBytes(b, value)
	}
	return b
}

// span is the place of a key group: its entries lie one after the other from byte at of the block at offset block.
type span struct {
	group   int
	block   int64 // of the block in the chunk
	at      int   // of the first entry in the block, in memory
	entries int
}

func appendIndex(b []byte, spans []span) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	group, block := 0, int64(0)
	for _, s := range spans {
		b = binary.AppendUvarint(b, uint64(s.group-group))
		b = binary.AppendUvarint(b, uint64(s.block-block))
		b = binary.AppendUvarint(b, uint64(s.at))
		b = binary.AppendUvarint(b, uint64(s.entries))
		group, block = s.group, s.block
	}
	return b
}

// parseIndex reads the index of a chunk whose blocks lie in [first, end).
func parseIndex(b []byte, groups int, first, end int64) ([]span, error) {
	d := decoder{rest: b}
	n := d.count(4)
	spans := make([]span, 0, n)
	group, block := 0, int64(0)
	for i := range n {
		dg, db, at, entries := d.uvarint(), d.uvarint(), d.uvarint(), d.uvarint()
		if i > 0 && dg == 0 || dg > uint64(groups) || db > uint64(end) || at > maxBlock || entries == 0 || entries > uint64(end)<<16 {
			d.fail()
			break
		}
		group, block = group+int(dg), block+int64(db)
		if group >= groups || block < first || block >= end {
			d.fail()
			break
		}
		spans = append(spans, span{group, block, int(at), int(entries)})
	}
	if err := d.finish(); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return spans, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(parts ...[]byte) uint32 {
	var c uint32
	for _, p := range parts {
		c = crc32.Update(c, castagnoli, p)
	}
	return c
}

func appendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// decoder reads primitives and remembers that something was wrong, so that callers may ask once.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) fail() { d.bad, d.rest = true, nil }

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return x
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

// bytes is part of the input, not a copy.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// count reads a number of things of at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) finish() error {
	if d.bad || len(d.rest) > 0 {
		return fmt.Errorf("%w: %d bytes left over", ErrCorrupt, len(d.rest))
	}
	return nil
}
