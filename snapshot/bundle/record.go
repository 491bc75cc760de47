package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	iofs "io/fs"
	"path"
	"strconv"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// RecordFile is the name of the record in the directory.
const RecordFile = "SAVEPOINT"

const (
	recordKind    = "sluice-savepoint"
	recordVersion = 1
	maxRecord     = 1 << 16 // bytes
)

// Record says what a directory holds.
type Record struct {
	Job        string `json:"job"`
	Checkpoint uint64 `json:"checkpoint"`
	Manifest   string `json:"manifest"` // name of the object
	Size       int64  `json:"size"`     // of the manifest, in bytes
	Digest     []byte `json:"digest"`   // SHA-256 of the manifest
	Objects    int    `json:"objects"`  // that the manifest names
	Bytes      int64  `json:"bytes"`    // of all of them, the manifest included
}

// Object is the manifest.
func (r *Record) Object() *jobpb.Object {
	return &jobpb.Object{Name: r.Manifest, Size: r.Size, Digest: r.Digest}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(r *Record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record of a savepoint: %w", err)
	}
	b := fmt.Appendf(nil, "%s %d\n%s\n", recordKind, recordVersion, body)
	return fmt.Appendf(b, "crc32c %08x\n", crc32.Checksum(b, castagnoli)), nil
}

// decode reads a record: a *snapshot.DamagedError if the bytes are not what was written, a *snapshot.FormatError if they are of a newer
// version.
func decode(b []byte) (*Record, error) {
	damaged := func(format string, args ...any) error {
		return &snapshot.DamagedError{Name: RecordFile, Cause: fmt.Errorf(format, args...)}
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if len(lines) != 4 || len(lines[3]) != 0 {
		return nil, damaged("%d bytes are not three lines", len(b))
	}
	sum := crc32.Checksum(b[:len(lines[0])+len(lines[1])], castagnoli)
	if want := fmt.Sprintf("crc32c %08x\n", sum); string(lines[2]) != want {
		return nil, damaged("bad checksum")
	}
	kind, number, _ := bytes.Cut(bytes.TrimSpace(lines[0]), []byte(" "))
	version, err := strconv.Atoi(string(number))
	if string(kind) != recordKind || err != nil {
		return nil, damaged("begins with %.40q", lines[0])
	}
	if version != recordVersion {
		return nil, &snapshot.FormatError{Cause: fmt.Errorf("the record has format version %d, this program reads %d", version, recordVersion)}
	}
	r := &Record{}
	if err := json.Unmarshal(lines[1], r); err != nil {
		return nil, damaged("content: %w", err)
	}
	p, err := snapshot.Name(r.Manifest).Parse()
	if err != nil || p.Kind != snapshot.KindManifest || p.Checkpoint != r.Checkpoint || snapshot.CheckObject(r.Object()) != nil {
		return nil, damaged("it names no manifest of checkpoint %d: %.300q", r.Checkpoint, r.Manifest)
	}
	return r, nil
}

// Read reads the record of a directory. It is nil if there is none: the directory is no savepoint by itself.
func Read(fsys vfs.FS, dir string) (*Record, error) {
	file := path.Join(dir, RecordFile)
	info, err := fsys.Stat(file)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxRecord {
		return nil, &snapshot.DamagedError{Name: RecordFile, Cause: fmt.Errorf("%d bytes, at most %d", info.Size(), maxRecord)}
	}
	b, err := vfs.ReadFile(fsys, file)
	if err != nil {
		return nil, err
	}
	return decode(b)
}
