package pipe

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Layout of a preface; docs/format/preface.md.
const (
	// PrefaceSize is the length of every version of the preface, in bytes, so that a reader never takes a byte that
	// belongs to the task processes.
	PrefaceSize    = 64
	prefaceMagic   = uint32('S') | uint32('L')<<8 | uint32('D')<<16 | uint32('P')<<24
	prefaceVersion = 1
	jobHashSize    = 28
)

// ErrPreface says that a connection does not begin with a preface of a known version.
var ErrPreface = errors.New("bad preface")

// JobHash stands for a job id in a preface: a fixed size for names of any length.
type JobHash [jobHashSize]byte

// HashJob returns the first 28 bytes of the SHA-256 of the job id.
func HashJob(id string) JobHash {
	sum := sha256.Sum256([]byte(id))
	return JobHash(sum[:jobHashSize])
}

// Preface says which task process a data connection is for, or that it is for the agent.
type Preface struct {
	Job     JobHash
	Process uint64 // 0: the agent itself, whatever the other fields say
	// JobEpoch and RegionEpoch are those of the subtask that the dialler wants first: the process has to know at
	// least these, otherwise the answer is NotYet. Each channel checks its own epochs again.
	JobEpoch    uint64
	RegionEpoch uint64
}

// Encode returns the bytes of p.
func (p Preface) Encode() [PrefaceSize]byte {
	var b [PrefaceSize]byte
	binary.LittleEndian.PutUint32(b[0:], prefaceMagic)
	binary.LittleEndian.PutUint16(b[4:], prefaceVersion)
	binary.LittleEndian.PutUint64(b[8:], p.Process)
	binary.LittleEndian.PutUint64(b[16:], p.JobEpoch)
	binary.LittleEndian.PutUint64(b[24:], p.RegionEpoch)
	copy(b[32:60], p.Job[:])
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// DecodePreface checks every byte: magic, version, reserved bytes, checksum.
func DecodePreface(b [PrefaceSize]byte) (Preface, error) {
	if magic := binary.LittleEndian.Uint32(b[0:]); magic != prefaceMagic {
		return Preface{}, fmt.Errorf("%w: begins with %#08x", ErrPreface, magic)
	}
	if sum := crc32.Checksum(b[:60], castagnoli); sum != binary.LittleEndian.Uint32(b[60:]) {
		return Preface{}, fmt.Errorf("%w: checksum differs", ErrPreface)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != prefaceVersion {
		return Preface{}, fmt.Errorf("%w: version %d, known is %d", ErrPreface, v, prefaceVersion)
	}
	if r := binary.LittleEndian.Uint16(b[6:]); r != 0 {
		return Preface{}, fmt.Errorf("%w: reserved bytes are %#04x", ErrPreface, r)
	}
	p := Preface{
		Job:         JobHash(b[32:60]),
		Process:     binary.LittleEndian.Uint64(b[8:]),
		JobEpoch:    binary.LittleEndian.Uint64(b[16:]),
		RegionEpoch: binary.LittleEndian.Uint64(b[24:]),
	}
	return p, nil
}

// ReadPreface takes exactly PrefaceSize bytes from r, which must not be buffered: what follows belongs to the process.
func ReadPreface(r io.Reader) (Preface, error) {
	var b [PrefaceSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Preface{}, fmt.Errorf("read preface: %w", err)
	}
	return DecodePreface(b)
}

// Answer is the one byte that follows a preface.
type Answer uint8

const (
	// Accepted: the connection leads to the process from the next byte on.
	Accepted Answer = iota
	// NotYet: the process, or its deployment, has not arrived here. The agent closes; ask again.
	NotYet
	// Gone: the process has ended and never comes back. The agent closes.
	Gone
)

func (a Answer) String() string {
	switch a {
	case Accepted:
		return "accepted"
	case NotYet:
		return "not yet"
	case Gone:
		return "gone"
	}
	return fmt.Sprintf("answer %d", uint8(a))
}
