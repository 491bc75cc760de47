package flowtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
)

// A snapshot of a harness (docs/format/testsnapshot.md): magic, version, id of the checkpoint, number of chunks; each chunk
// with its length; checksum of everything before.
const (
	snapshotMagic   = "SLTS"
	snapshotVersion = 1
)

var (
	errSnapshot   = errors.New("not a snapshot of a harness, or a damaged one")
	snapshotTable = crc32.MakeTable(crc32.Castagnoli)
)

func encodeSnapshot(s operatortest.Stored) []byte {
	b := append([]byte(snapshotMagic), snapshotVersion)
	b = binary.AppendUvarint(b, uint64(s.Checkpoint))
	b = binary.AppendUvarint(b, uint64(len(s.Chunks)))
	for _, c := range s.Chunks {
		b = binary.AppendUvarint(b, uint64(len(c)))
		b = append(b, c...)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, snapshotTable))
}

func decodeSnapshot(b []byte) (s operatortest.Stored, err error) {
	const head = len(snapshotMagic) + 1
	if len(b) < head+4 || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return s, errSnapshot
	}
	if v := b[len(snapshotMagic)]; v != snapshotVersion {
		return s, fmt.Errorf("snapshot of version %d, this release reads %d", v, snapshotVersion)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, snapshotTable) != sum {
		return s, errSnapshot
	}
	rest := body[head:]
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			err = errSnapshot
			return 0
		}
		rest = rest[n:]
		return v
	}
	s.Checkpoint = element.CheckpointID(next())
	for n := next(); n > 0 && err == nil; n-- {
		size := next()
		if err != nil || size > uint64(len(rest)) {
			return operatortest.Stored{}, errSnapshot
		}
		s.Chunks = append(s.Chunks, rest[:size:size])
		rest = rest[size:]
	}
	if err != nil || len(rest) > 0 || s.Checkpoint == 0 {
		return operatortest.Stored{}, errSnapshot
	}
	return s, nil
}
