package spill

import (
	"errors"
	"slices"
)

// Limits of blocks, in bytes before compression.
const (
	minBlock = 512
	maxBlock = 64 << 10
)

// BlockFor is the size of the blocks of an operator with a budget of limit bytes: small enough that a few dozen of them are
// a part of it.
func BlockFor(limit int64) int {
	if limit <= 0 {
		return maxBlock
	}
	b := minBlock
	for b < maxBlock && int64(b)*256 <= limit {
		b *= 2
	}
	return b
}

// Counts is where an operator counts what it has spilled.
type Counts struct {
	Bytes   *int64 // as on disk
	Records *int64
	Files   *int64 // made; nil: not counted
}

// Space is one operator's use of an Area: its files, and the buffers that they share.
type Space struct {
	area   *Area
	budget *Budget
	counts Counts
	block  int
	files  []*File // open

	// scratch holds the encoding of one record, packed one block as it lies in a file, header included.
	scratch []byte
	packed  []byte
	held    int64 // taken from the budget for these two
}

// NewSpace makes a space with blocks of block bytes (BlockFor).
func (a *Area) NewSpace(b *Budget, c Counts, block int) *Space {
	return &Space{area: a, budget: b, counts: c, block: min(max(block, minBlock), maxBlock)}
}

// Block is the size of the blocks: what each Writer and Reader takes from the budget.
func (s *Space) Block() int { return s.block }

// Overhead is what a space takes from the budget with its first block, and keeps.
func (s *Space) Overhead() int64 { return int64(headerSize + packedSize(s.block) + s.block) }

// buffers makes the room that writing and reading share.
func (s *Space) buffers() {
	if s.packed == nil {
		s.packed = make([]byte, headerSize+packedSize(s.block))
		s.scratch = make([]byte, 0, s.block)
		s.held = s.Overhead()
		s.budget.Force(s.held)
	}
}

// keep makes b the scratch buffer, unless it has grown beyond a block: such a record is rare, and its buffer would stay.
func (s *Space) keep(b []byte) {
	if cap(b) <= s.block {
		s.scratch = b[:0]
	}
}

// NewFile describes a file. It is made on the disk with its first block.
func (s *Space) NewFile() *File {
	f := &File{space: s}
	s.files = append(s.files, f)
	return f
}

func (s *Space) forget(f *File) {
	if i := slices.Index(s.files, f); i >= 0 {
		s.files = slices.Delete(s.files, i, i+1)
	}
}

// Close removes all files that are still there.
func (s *Space) Close() error {
	var errs []error
	for len(s.files) > 0 {
		errs = append(errs, s.files[len(s.files)-1].Close())
	}
	s.budget.Give(s.held)
	s.held, s.scratch, s.packed = 0, nil, nil
	return errors.Join(errs...)
}
