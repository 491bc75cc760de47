package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// The format of a manifest: docs/format/manifest.md.
const (
	manifestMagic = "SLUICE-M"
	// ManifestVersion is the newest version that this program writes and reads.
	ManifestVersion = 1
	// maxManifest bounds a manifest in memory, in bytes.
	maxManifest = 512 << 20

	manifestPreamble = len(manifestMagic) + 2 + 4 + 4 + 4 // magic, version, length stored, length in memory, checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeManifest makes the bytes of a manifest, which is validated first. The same manifest has the same bytes.
func EncodeManifest(m *snapshotpb.Manifest) ([]byte, error) {
	if err := Validate(m); err != nil {
		return nil, err
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest of checkpoint %d: %w", m.Checkpoint, err)
	}
	if len(body) > maxManifest {
		return nil, unfit("the manifest of checkpoint %d has %d bytes, at most %d", m.Checkpoint, len(body), maxManifest)
	}
	packed := s2.Encode(nil, body)
	b := make([]byte, 0, manifestPreamble+len(packed))
	b = append(b, manifestMagic...)
	b = binary.LittleEndian.AppendUint16(b, ManifestVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(packed)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, packed))
	return append(b, packed...), nil
}

// DecodeManifest reads a manifest and validates it: a *DamagedError if the bytes are not what was written, a *FormatError if
// they are and this program cannot use them.
func DecodeManifest(b []byte) (*snapshotpb.Manifest, error) {
	damaged := func(format string, args ...any) error {
		return &DamagedError{Name: "manifest", Cause: fmt.Errorf(format, args...)}
	}
	if len(b) < manifestPreamble || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, damaged("%d bytes that do not begin as a manifest", len(b))
	}
	f := b[len(manifestMagic):]
	version, stored, size := binary.LittleEndian.Uint16(f), binary.LittleEndian.Uint32(f[2:]), binary.LittleEndian.Uint32(f[6:])
	if version != ManifestVersion {
		return nil, unfit("format version %d, this program reads %d", version, ManifestVersion)
	}
	packed := b[manifestPreamble:]
	if int64(stored) != int64(len(packed)) || size > maxManifest {
		return nil, damaged("%d bytes of content, the preamble says %d (%d in memory)", len(packed), stored, size)
	}
	if crc32.Update(crc32.Checksum(b[:manifestPreamble-4], castagnoli), castagnoli, packed) != binary.LittleEndian.Uint32(f[10:]) {
		return nil, damaged("bad checksum")
	}
	if n, err := s2.DecodedLen(packed); err != nil || n != int(size) {
		return nil, damaged("bad compressed length")
	}
	body, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, damaged("content: %w", err)
	}
	m := &snapshotpb.Manifest{}
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, damaged("content: %w", err)
	}
	if err := Validate(m); err != nil {
		return nil, err
	}
	return m, nil
}

// ReadManifest fetches a manifest from wherever it is, compares it with its digest and reads it. A copy that is damaged is
// not the last word: the stores are asked again without the one that gave it.
func ReadManifest(ctx context.Context, stores Stores, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (*snapshotpb.Manifest, error) {
	if stores == nil {
		return nil, errNoStores
	}
	name := Name(o.GetObject().GetName())
	want, err := name.Parse()
	if err != nil || want.Kind != KindManifest {
		return nil, unfit("%.300q is no name of a manifest", string(name))
	}
	var errs []error
	for _, some := range Each(o) {
		data, err := readAll(ctx, stores, some, addresses)
		if err == nil {
			m, err := DecodeManifest(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if m.Job != want.Job || m.Checkpoint != want.Checkpoint || m.JobEpoch != want.JobEpoch {
				return nil, unfit("%s holds checkpoint %d of job %s, epoch %d", name, m.Checkpoint, m.Job, m.JobEpoch)
			}
			return m, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("read %s: %w", name, errors.Join(errs...))
}

// Each are the ways to ask for an object: all of its stores, and then each alone, for a reader that has found one copy to be
// other than it should be.
func Each(o *jobpb.StoredObject) []*jobpb.StoredObject {
	ways := []*jobpb.StoredObject{o}
	if len(o.GetStores()) > 1 {
		for _, s := range o.Stores {
			ways = append(ways, &jobpb.StoredObject{Object: o.Object, Stores: []string{s}})
		}
	}
	return ways
}

func readAll(ctx context.Context, stores Stores, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (data []byte, err error) {
	if o.Object.Size > maxManifest+int64(manifestPreamble) {
		return nil, unfit("%s has %d bytes", o.Object.Name, o.Object.Size)
	}
	r, err := stores.Open(ctx, o, addresses)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.Size() != o.Object.Size {
		return nil, &DamagedError{Name: Name(o.Object.Name), Cause: fmt.Errorf("%d bytes instead of %d", r.Size(), o.Object.Size)}
	}
	data = make([]byte, r.Size())
	if n, err := r.ReadAt(data, 0); n < len(data) && err != nil && !(errors.Is(err, io.EOF) && n == len(data)) {
		return nil, fmt.Errorf("read %s: %w", o.Object.Name, err)
	}
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], o.Object.Digest) {
		return nil, &DamagedError{Name: Name(o.Object.Name), Cause: fmt.Errorf("digest %x instead of %x", sum, o.Object.Digest)}
	}
	return data, nil
}
