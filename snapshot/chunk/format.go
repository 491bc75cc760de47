package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// ErrCorrupt is wrapped by every error about bytes that no Writer wrote, or that changed since.
var ErrCorrupt = errors.New("corrupt chunk")

// ErrVersion is wrapped by the error of a chunk that another version of this format describes.
var ErrVersion = errors.New("another version of the format")

const (
	magic   = "SLUICE-C" // first eight bytes of a chunk; the trailer ends with them again
	version = 2
	// blockSize is the number of bytes after which a block is closed. An entry is never split, so that blocks may be
	// longer.
	blockSize = 64 << 10
	// MaxEntry bounds the keys and the value of an entry together, in bytes.
	MaxEntry = 64 << 20
	// maxBlock bounds a block in memory.
	maxBlock = blockSize + MaxEntry + 5*binary.MaxVarintLen64
	// maxHeader bounds the header and the index, in bytes.
	maxHeader = 64 << 20
	// maxGroups bounds the number of key groups.
	maxGroups = 1 << 15

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
	// Value is one value per key.
	Value Kind = iota + 1
	// List is a list per key. The sub-key of an entry is the number of a run of elements, the value that run.
	List
	// Map is a map per key. The sub-key of an entry is the key in the map.
	Map
	// EventTimer and ProcTimer are one deadline per key, by event time and by the clock.
	EventTimer
	ProcTimer
	// EventTimers and ProcTimers are sets of deadlines per key. The sub-key of an entry is the deadline.
	EventTimers
	ProcTimers
)

// hasSub reports whether entries of the kind have a sub-key.
func (k Kind) hasSub() bool { return k == List || k == Map || k == EventTimers || k == ProcTimers }

// Scope is to whom the entries of a table belong.
type Scope uint8

const (
	// Keyed entries belong to the subtask that owns the key group of their key.
	Keyed Scope = iota + 1
	// Redistributed entries belong to the subtask that owns their key group, which says nothing about them.
	Redistributed
	// Union entries belong to every subtask.
	Union
	// Broadcast entries are the same in every subtask; the chunk of subtask 0 has them.
	Broadcast
)

// State describes one state of a table.
type State struct {
	Name string
	Kind Kind
	// Sub is the schema of the sub-key; empty if the kind has none.
	Sub string
	// Value is the schema of the value: for List that of an element.
	Value string
	// TTL is how long a value lives; 0: for ever. With a TTL every value begins with its stamp (docs/format/chunk.md).
	TTL time.Duration
}

// Header describes a chunk.
type Header struct {
	// MaxParallelism is the number of key groups of the job.
	MaxParallelism int
	// Table is which one of the operator's tables the entries are of.
	Table string
	Scope Scope
	// Space is the schema of namespaces; empty if the table has none.
	Space string
	// Key is the schema of the keys.
	Key string
	// Sorted: the entries of a key group are in the order of Merge, one for each unit.
	Sorted bool
	// States by the number that entries call them.
	States []State
}

func (h *Header) validate() error {
	if h.MaxParallelism < 1 || h.MaxParallelism > maxGroups {
		return fmt.Errorf("max parallelism %d", h.MaxParallelism)
	}
	if h.Scope < Keyed || h.Scope > Broadcast {
		return fmt.Errorf("scope %d", h.Scope)
	}
	names := map[string]bool{}
	for i, s := range h.States {
		if s.Kind < Value || s.Kind > ProcTimers || s.Name == "" || names[s.Name] {
			return fmt.Errorf("state %d: name %q, kind %d", i, s.Name, s.Kind)
		}
		if s.Kind.hasSub() != (s.Sub != "") || s.TTL < 0 || s.TTL%time.Microsecond != 0 {
			return fmt.Errorf("state %q: kind %d, schema of sub-keys %q, time to live %v", s.Name, s.Kind, s.Sub, s.TTL)
		}
		names[s.Name] = true
	}
	return nil
}

func order(sorted bool) byte {
	if sorted {
		return 1
	}
	return 0
}

func (h *Header) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(h.MaxParallelism))
	b = append(b, byte(h.Scope), order(h.Sorted))
	b = appendBytes(b, h.Table)
	b = appendBytes(b, h.Space)
	b = appendBytes(b, h.Key)
	b = binary.AppendUvarint(b, uint64(len(h.States)))
	for _, s := range h.States {
		b = append(b, byte(s.Kind))
		b = appendBytes(b, s.Name)
		b = appendBytes(b, s.Sub)
		b = appendBytes(b, s.Value)
		b = binary.AppendUvarint(b, uint64(s.TTL/time.Microsecond))
	}
	return b
}

// maxTTL is the longest time to live, in microseconds, that fits a time.Duration.
const maxTTL = uint64(1<<63-1) / uint64(time.Microsecond)

func parseHeader(b []byte) (*Header, error) {
	d := decoder{rest: b}
	h := &Header{MaxParallelism: int(min(d.uvarint(), 1<<16)), Scope: Scope(d.byte())}
	switch d.byte() {
	case 0:
	case 1:
		h.Sorted = true
	default:
		d.fail()
	}
	h.Table, h.Space, h.Key = string(d.bytes()), string(d.bytes()), string(d.bytes())
	states := d.count(5)
	for range states {
		s := State{Kind: Kind(d.byte()), Name: string(d.bytes()), Sub: string(d.bytes()), Value: string(d.bytes())}
		ttl := d.uvarint()
		if ttl > maxTTL {
			d.fail()
		}
		s.TTL = time.Duration(ttl) * time.Microsecond
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

// Op is what an entry says. Entries are facts in the order of a chain: each replaces what the ones before it said.
type Op uint8

const (
	// Put: the unit has this value.
	Put Op = iota
	// Delete: the unit is gone.
	Delete
	// Drop: everything of this space in this key group is gone, whatever the state.
	Drop
)

// Entry is one entry of a chunk. Its bytes are valid until the next one is asked for.
type Entry struct {
	Group int // key group
	State int // index of Header.States; 0 for Drop
	Op    Op
	Space []byte // nil if the table has no spaces
	Key   []byte // nil for Drop
	Sub   []byte // nil if the state's kind has none, and for Drop
	Value []byte // for Put
}

func (e *Entry) size() int { return len(e.Space) + len(e.Key) + len(e.Sub) + len(e.Value) }

// fields says which fields an entry of this state and op has; ok is false if there can be no such entry.
func (h *Header) fields(state int, op Op) (space, key, sub, value, ok bool) {
	space = h.Space != ""
	if op == Drop {
		return space, false, false, false, space && state == 0
	}
	if state >= len(h.States) || op > Drop {
		return false, false, false, false, false
	}
	return space, true, h.States[state].Kind.hasSub(), op == Put, true
}

func (h *Header) appendEntry(b []byte, e *Entry) []byte {
	b = binary.AppendUvarint(b, uint64(e.State)<<2|uint64(e.Op))
	space, key, sub, value, _ := h.fields(e.State, e.Op)
	if space {
		b = appendBytes(b, e.Space)
	}
	if key {
		b = appendBytes(b, e.Key)
	}
	if sub {
		b = appendBytes(b, e.Sub)
	}
	if value {
		b = appendBytes(b, e.Value)
	}
	return b
}

// entry reads an entry; its bytes are part of the input.
func (h *Header) entry(d *decoder, group int) (e Entry) {
	tag := d.uvarint()
	e = Entry{Group: group, State: int(min(tag>>2, 1<<31)), Op: Op(tag & 3)}
	space, key, sub, value, ok := h.fields(e.State, e.Op)
	if !ok {
		d.fail()
		return e
	}
	if space {
		e.Space = d.bytes()
	}
	if key {
		e.Key = d.bytes()
	}
	if sub {
		e.Sub = d.bytes()
	}
	if value {
		e.Value = d.bytes()
	}
	return e
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
