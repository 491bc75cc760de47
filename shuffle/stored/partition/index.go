package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/sluiceio/sluice/flow/element"
)

const (
	// Version of both files.
	Version = 1

	indexMagic = "SLUICE-P"
	dataMagic  = "SLUICE-D"

	// FileHeader begins both files, in bytes.
	FileHeader = 16
	// ExtentLen is the length of an entry of the index, in bytes.
	ExtentLen = 32

	footerFixed = 92
	tailLen     = 16
	// MaxFooter bounds what AppendFooter appends, in bytes.
	MaxFooter = footerFixed + maxJob + tailLen
)

// MaxConsumers bounds the subpartitions of a partition: the highest parallelism.
const MaxConsumers = 32768

// Extent is what one run holds for one subpartition: blocks that lie behind each other in the data file.
type Extent struct {
	Offset  int64 // in the data file
	Bytes   int64
	Blocks  uint32
	Records uint32
	Sum     uint32 // checksum over the headers of its blocks
}

// AppendExtent appends the entry of subpartition sub in run.
func AppendExtent(dst []byte, e Extent, run, sub int32) []byte {
	old := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Offset))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Bytes))
	dst = binary.LittleEndian.AppendUint32(dst, e.Blocks)
	dst = binary.LittleEndian.AppendUint32(dst, e.Records)
	dst = binary.LittleEndian.AppendUint32(dst, e.Sum)
	return binary.LittleEndian.AppendUint32(dst, extentSum(dst[old:], run, sub))
}

// extentSum is the checksum of an entry at its place: one that is read from another place is found.
func extentSum(b []byte, run, sub int32) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint32(place[:], uint32(run))
	binary.LittleEndian.PutUint32(place[4:], uint32(sub))
	return crc32.Update(Sum(place[:]), castagnoli, b)
}

// ParseExtent reads the entry of subpartition sub in run from the front of b and checks it against the length of the
// data file.
func ParseExtent(b []byte, run, sub int32, dataBytes int64) (Extent, error) {
	if len(b) < ExtentLen {
		return Extent{}, fmt.Errorf("%w: %d bytes are no entry of an index", ErrCorrupt, len(b))
	}
	const sumAt = ExtentLen - 4
	if sum, want := binary.LittleEndian.Uint32(b[sumAt:]), extentSum(b[:sumAt], run, sub); sum != want {
		return Extent{}, fmt.Errorf("%w: entry of run %d has checksum %08x, want %08x", ErrCorrupt, run, sum, want)
	}
	e := Extent{
		Offset: int64(binary.LittleEndian.Uint64(b)), Bytes: int64(binary.LittleEndian.Uint64(b[8:])),
		Blocks: binary.LittleEndian.Uint32(b[16:]), Records: binary.LittleEndian.Uint32(b[20:]), Sum: binary.LittleEndian.Uint32(b[24:]),
	}
	if e.Offset < FileHeader || e.Bytes < int64(e.Blocks)*BlockHeader || e.Offset > dataBytes || e.Bytes > dataBytes-e.Offset ||
		e.Records < e.Blocks || (e.Bytes == 0) != (e.Blocks == 0) || (e.Blocks == 0) != (e.Records == 0) {
		return Extent{}, fmt.Errorf("%w: run %d has %d blocks in %d bytes at %d of %d", ErrCorrupt, run, e.Blocks, e.Bytes, e.Offset, dataBytes)
	}
	return e, nil
}

// Summary is what an index says about the partition as a whole.
type Summary struct {
	Name      Name
	First     int32 // consumer of subpartition 0
	Consumers int32 // number of subpartitions
	Runs      int32
	DataBytes int64 // length of the data file
	Blocks    int64
	Records   int64
	End       element.Time // what every subpartition ends with
	Shared    bool         // there is one subpartition, and it is everybody's
}

// IndexBytes is the length of the index.
func (s *Summary) IndexBytes() int64 {
	return FileHeader + int64(s.Runs)*int64(s.Consumers)*ExtentLen + int64(footerFixed+len(s.Name.Job)+tailLen)
}

// extentAt is where the entry of subpartition sub in run lies in the index.
func (s *Summary) extentAt(run, sub int32) int64 {
	return FileHeader + (int64(run)*int64(s.Consumers)+int64(sub))*ExtentLen
}

// AppendIndexHeader begins an index.
func AppendIndexHeader(dst []byte) []byte { return appendFileHeader(dst, indexMagic, 0) }

// AppendDataHeader begins the data file of the partition that is named.
func AppendDataHeader(dst []byte, n Name) []byte { return appendFileHeader(dst, dataMagic, nameSum(n)) }

func nameSum(n Name) uint32 { return Sum(appendName(nil, n)) }

// appendFileHeader: what is bound to the file enters the checksum.
func appendFileHeader(dst []byte, magic string, bound uint32) []byte {
	old := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, Version)
	dst = append(dst, 0, 0)
	return binary.LittleEndian.AppendUint32(dst, headerSum(dst[old:], bound))
}

func headerSum(b []byte, bound uint32) uint32 {
	return crc32.Update(bound, castagnoli, b)
}

func checkFileHeader(b []byte, magic string, bound uint32) error {
	switch {
	case len(b) < FileHeader || string(b[:len(magic)]) != magic:
		return fmt.Errorf("%w: it does not begin with %s", ErrCorrupt, magic)
	case binary.LittleEndian.Uint32(b[12:]) != headerSum(b[:12], bound):
		return fmt.Errorf("%w: its header has another checksum, or is that of another partition", ErrCorrupt)
	case binary.LittleEndian.Uint16(b[8:]) != Version || b[10]|b[11] != 0:
		return fmt.Errorf("%w: version %d, this build reads %d", ErrCorrupt, binary.LittleEndian.Uint16(b[8:]), Version)
	}
	return nil
}

// CheckData checks the beginning of a data file, and its length.
func (s *Summary) CheckData(data io.ReaderAt, length int64) error {
	if length != s.DataBytes {
		return fmt.Errorf("%w: the data file has %d bytes, its index says %d", ErrCorrupt, length, s.DataBytes)
	}
	var b [FileHeader]byte
	if err := readAt(data, "data file", b[:], 0); err != nil {
		return err
	}
	return checkFileHeader(b[:], dataMagic, nameSum(s.Name))
}

func appendName(dst []byte, n Name) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, n.JobEpoch)
	dst = binary.LittleEndian.AppendUint64(dst, n.RegionEpoch)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n.Region))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n.Edge))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n.Producer))
	dst = binary.LittleEndian.AppendUint32(dst, n.Attempt)
	return append(dst, n.Job...)
}

// AppendFooter ends an index.
func AppendFooter(dst []byte, s *Summary) []byte {
	old := len(dst)
	for _, v := range []int32{s.First, s.Consumers, s.Runs} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	for _, v := range []int64{s.DataBytes, s.Blocks, s.Records, int64(s.End)} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	dst = append(dst, make([]byte, 16)...) // flags, else reserved
	if s.Shared {
		dst[len(dst)-16] = 1
	}
	dst = appendName(dst, s.Name)
	length := uint32(len(dst) - old)
	dst = binary.LittleEndian.AppendUint32(dst, length)
	dst = binary.LittleEndian.AppendUint32(dst, Sum(dst[old:]))
	return append(dst, indexMagic...)
}

// ReadSummary reads header and footer of an index of the given length, and checks them.
func ReadSummary(index io.ReaderAt, length int64) (*Summary, error) {
	if length < FileHeader+footerFixed+tailLen {
		return nil, fmt.Errorf("%w: an index of %d bytes", ErrCorrupt, length)
	}
	var head [FileHeader]byte
	if err := readAt(index, "index", head[:], 0); err != nil {
		return nil, err
	}
	if err := checkFileHeader(head[:], indexMagic, 0); err != nil {
		return nil, err
	}
	b := make([]byte, min(MaxFooter, length-FileHeader))
	if err := readAt(index, "index", b, length-int64(len(b))); err != nil {
		return nil, err
	}
	s, err := parseFooter(b)
	if err != nil {
		return nil, err
	}
	if want := s.IndexBytes(); want != length {
		return nil, fmt.Errorf("%w: an index of %d bytes, it says %d", ErrCorrupt, length, want)
	}
	return s, nil
}

// parseFooter reads the footer at the end of b.
func parseFooter(b []byte) (*Summary, error) {
	tail := b[len(b)-tailLen:]
	if string(tail[8:]) != indexMagic {
		return nil, fmt.Errorf("%w: the index does not end with %s", ErrCorrupt, indexMagic)
	}
	length := uint64(binary.LittleEndian.Uint32(tail))
	if length < footerFixed || length > uint64(len(b)-tailLen) {
		return nil, fmt.Errorf("%w: footer of %d bytes", ErrCorrupt, length)
	}
	f := b[len(b)-tailLen-int(length) : len(b)-tailLen+4]
	if sum := binary.LittleEndian.Uint32(tail[4:]); sum != Sum(f) {
		return nil, fmt.Errorf("%w: footer checksum %08x, want %08x", ErrCorrupt, sum, Sum(f))
	}
	u32 := func(at int) int32 { return int32(binary.LittleEndian.Uint32(f[at:])) }
	u64 := func(at int) int64 { return int64(binary.LittleEndian.Uint64(f[at:])) }
	s := &Summary{
		First: u32(0), Consumers: u32(4), Runs: u32(8),
		DataBytes: u64(12), Blocks: u64(20), Records: u64(28), End: element.Time(u64(36)),
		Name: Name{
			JobEpoch: uint64(u64(60)), RegionEpoch: uint64(u64(68)), Region: u32(76), Edge: u32(80), Producer: u32(84),
			Attempt: uint32(u32(88)), Job: string(f[footerFixed:length]),
		},
	}
	s.Shared = f[44] == 1
	if f[44] > 1 || !bytes.Equal(f[45:60], make([]byte, 15)) {
		return nil, fmt.Errorf("%w: reserved bytes of the footer are not 0", ErrCorrupt)
	}
	return s, s.check()
}

func (s *Summary) check() error {
	if err := s.Name.Validate(); err != nil {
		return fmt.Errorf("%w: the index names %w", ErrCorrupt, err)
	}
	if s.Consumers < 1 || s.Consumers > MaxConsumers || s.First < 0 || s.Runs < 0 || s.DataBytes < FileHeader || s.Shared && s.Consumers != 1 || s.Blocks < 0 || s.Records < s.Blocks {
		return fmt.Errorf("%w: %d consumers from %d, %d runs, %d bytes, %d blocks, %d records",
			ErrCorrupt, s.Consumers, s.First, s.Runs, s.DataBytes, s.Blocks, s.Records)
	}
	return nil
}
