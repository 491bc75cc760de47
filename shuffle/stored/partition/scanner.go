package partition

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Scanner reads the blocks of one subpartition in order, as they lie in the data file.
//
// It checks what belongs to the place of a block: its header, and at the end of each extent the checksum over all
// headers in it, so that a sound block that belongs elsewhere is found. The payload is for its reader to verify.
type Scanner struct {
	summary     *Summary
	sub         int32
	index, data io.ReaderAt

	run   int32  // of the next extent
	left  Extent // what is left of the extent that is read; its Sum is what sum has to be at its end
	sum   uint32 // of the headers read in it
	large int64  // bytes left of a block that is handed out in pieces
	count int64  // blocks that were handed out, or begun

	rows   []byte // a part of the index
	rowsAt int64  // where it lies
}

// rowBytes is how much of the index is read at once where the entries of a subpartition lie near each other.
const rowBytes = 4 << 10

// NewScanner begins at the first block of the consumer's subpartition.
func NewScanner(s *Summary, consumer int32, index, data io.ReaderAt) (*Scanner, error) {
	sub := consumer - s.First
	if s.Shared {
		sub = 0
	}
	if sub < 0 || sub >= s.Consumers {
		return nil, fmt.Errorf("consumer %d reads a partition for %d consumers from %d on", consumer, s.Consumers, s.First)
	}
	return &Scanner{summary: s, sub: sub, index: index, data: data}, nil
}

// SkipTo goes to a block, counted from 0. It is called once, before Next. The number of blocks is a place, too: the end.
func (s *Scanner) SkipTo(block int64) error {
	for {
		err := s.extent()
		if errors.Is(err, io.EOF) && block == 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %d blocks are missing before the one that is asked for", ErrCorrupt, block)
		}
		if err != nil {
			return err
		}
		if block < int64(s.left.Blocks) {
			break
		}
		block -= int64(s.left.Blocks)
		s.left, s.sum = Extent{}, 0
	}
	var head [BlockHeader]byte
	for ; block > 0; block-- {
		if s.left.Bytes < BlockHeader {
			return s.foreign()
		}
		if err := s.read(head[:], s.left.Offset); err != nil {
			return err
		}
		size, err := s.account(head[:])
		if err != nil {
			return err
		}
		s.advance(size)
	}
	s.count = 0
	return nil
}

// Next fills buf, which has at least MaxBlock bytes, with whole blocks, or with the next piece of a block that is larger
// than buf. io.EOF says that there are no more. After another error the scanner is of no use.
func (s *Scanner) Next(buf []byte) (n int, err error) {
	for {
		if s.large > 0 {
			return s.piece(buf)
		}
		if s.left.Bytes == 0 {
			if err := s.extent(); errors.Is(err, io.EOF) && n > 0 {
				return n, nil
			} else if err != nil {
				return 0, err
			}
		}
		room := min(s.left.Bytes, int64(len(buf)-n))
		if room < BlockHeader && n > 0 {
			return n, nil
		}
		if room < BlockHeader {
			return 0, s.foreign()
		}
		took, err := s.fill(buf[n : n+int(room)])
		if err != nil {
			return 0, err
		}
		if n += took; n == 0 { // one block is larger than all that there is room for
			if err := s.enlarge(buf); err != nil {
				return 0, err
			}
		} else if took < int(room) {
			return n, nil
		}
	}
}

// Blocks is the number of blocks that Next has handed out, or begun to.
func (s *Scanner) Blocks() int64 { return s.count }

// fill reads as many whole blocks of the extent as fit into buf.
func (s *Scanner) fill(buf []byte) (took int, err error) {
	if err := s.read(buf, s.left.Offset); err != nil {
		return 0, err
	}
	for len(buf)-took >= BlockHeader {
		b, err := ParseBlock(buf[took:])
		if err != nil {
			return 0, err
		}
		if b.Size() > int64(len(buf)-took) {
			break
		}
		size, err := s.account(buf[took:])
		if err != nil {
			return 0, err
		}
		s.advance(size)
		took += int(size)
	}
	return took, nil
}

// enlarge begins a block that does not fit into buf, where it has been read to.
func (s *Scanner) enlarge(buf []byte) error {
	size, err := s.account(buf)
	if err != nil {
		return err
	}
	s.large = size
	return nil
}

// piece reads on in a large block.
func (s *Scanner) piece(buf []byte) (int, error) {
	n := min(s.large, int64(len(buf)))
	if err := s.read(buf[:n], s.left.Offset); err != nil {
		return 0, err
	}
	s.large -= n
	s.advance(n)
	return int(n), nil
}

// account takes the block whose header begins b off the extent, and returns its size.
func (s *Scanner) account(b []byte) (size int64, err error) {
	h, err := ParseBlock(b)
	if err != nil {
		return 0, err
	}
	if s.left.Blocks == 0 || h.Records > s.left.Records || h.Size() > s.left.Bytes {
		return 0, s.foreign()
	}
	s.count++
	s.left.Blocks--
	s.left.Records -= h.Records
	s.sum = SumHeader(s.sum, b)
	return h.Size(), nil
}

// SumHeader adds the header that begins b to the checksum of an extent, which is 0 before its first block. The header's
// own checksum is left out: the sum over bytes and their sum is the same for all bytes.
func SumHeader(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b[:BlockHeader-4]) }

func (s *Scanner) advance(n int64) {
	s.left.Offset += n
	s.left.Bytes -= n
}

func (s *Scanner) foreign() error {
	return fmt.Errorf("%w: the blocks of run %d are not those that the index means", ErrCorrupt, s.run-1)
}

func (s *Scanner) read(b []byte, at int64) error {
	return readAt(s.data, "data file", b, at)
}

// readAt fills b. That the file is shorter is io.ErrUnexpectedEOF, never io.EOF.
func readAt(f io.ReaderAt, what string, b []byte, at int64) error {
	_, err := f.ReadAt(b, at)
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d of the %s: %w", len(b), at, what, err)
}

// extent goes to the next extent that is not empty. io.EOF: there is none.
func (s *Scanner) extent() error {
	for s.left.Bytes == 0 {
		if s.left.Blocks != 0 || s.left.Records != 0 || s.sum != s.left.Sum {
			return s.foreign()
		}
		if s.run == s.summary.Runs {
			return io.EOF
		}
		b, err := s.entry()
		if err != nil {
			return err
		}
		e, err := ParseExtent(b, s.run, s.sub, s.summary.DataBytes)
		if err != nil {
			return err
		}
		s.left, s.sum = e, 0
		s.run++
	}
	return nil
}

// entry is the entry of the next run.
func (s *Scanner) entry() ([]byte, error) {
	at := s.summary.extentAt(s.run, s.sub)
	if at < s.rowsAt || at+ExtentLen > s.rowsAt+int64(len(s.rows)) {
		n := int64(ExtentLen)
		if int64(s.summary.Consumers)*ExtentLen <= rowBytes/2 {
			n = min(rowBytes, s.summary.extentAt(s.summary.Runs, 0)-at)
		}
		if int64(cap(s.rows)) < n {
			s.rows = make([]byte, n)
		}
		s.rows, s.rowsAt = s.rows[:n], at
		if err := readAt(s.index, "index", s.rows, at); err != nil {
			return nil, err
		}
	}
	return s.rows[at-s.rowsAt:], nil
}
