package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

const (
	manifestMagic = "SLUICE-M"
	// ManifestVersion is the newest format that this release reads, and the one that it writes.
	ManifestVersion = 1
	// MaxManifest bounds a manifest in memory, in bytes.
	MaxManifest = 256 << 20

	manifestHead = len(manifestMagic) + 2 + 4 + sha256.Size // magic, version, length unpacked, digest of what follows
)

// EncodeManifest lays a manifest out: docs/format/manifest.md. The same manifest gives the same bytes.
func EncodeManifest(m *snapshotpb.Manifest) ([]byte, error) {
	if err := ValidateManifest(m); err != nil {
		return nil, err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if len(raw) > MaxManifest {
		return nil, &ForeignError{What: fmt.Sprintf("the manifest of %s has %d bytes, %d are allowed", m.Job, len(raw), MaxManifest)}
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	out := append(make([]byte, 0, manifestHead+len(raw)/2), manifestMagic...)
	out = binary.LittleEndian.AppendUint16(out, ManifestVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(raw)))
	packed := z.EncodeAll(raw, nil)
	sum := sha256.Sum256(packed)
	return append(append(out, sum[:]...), packed...), nil
}

// DecodeManifest reads what EncodeManifest has written. Every byte is checked before it is believed. A damaged one is a
// *DamagedError, one of a newer format or incomplete a *ForeignError.
func DecodeManifest(data []byte) (*snapshotpb.Manifest, error) {
	damaged := func(what string) error { return &DamagedError{Place: "manifest", What: what} }
	if len(data) < manifestHead || !bytes.HasPrefix(data, []byte(manifestMagic)) {
		return nil, damaged("it is no manifest")
	}
	rest := data[len(manifestMagic):]
	version := binary.LittleEndian.Uint16(rest)
	if version != ManifestVersion {
		return nil, &ForeignError{
			What: fmt.Sprintf("the snapshot is of format %d, this release reads format %d", version, ManifestVersion),
			Hint: "use the release that wrote it, or a newer one",
		}
	}
	size := binary.LittleEndian.Uint32(rest[2:])
	sum, packed := rest[6:6+sha256.Size], rest[6+sha256.Size:]
	if got := sha256.Sum256(packed); !bytes.Equal(got[:], sum) {
		return nil, damaged("its digest differs")
	}
	if size > MaxManifest {
		return nil, damaged(fmt.Sprintf("it claims %d bytes", size))
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxManifest))
	if err != nil {
		return nil, fmt.Errorf("decode manifest: %w", err)
	}
	defer z.Close()
	raw, err := z.DecodeAll(packed, nil)
	if err != nil || len(raw) != int(size) {
		return nil, damaged("it cannot be unpacked")
	}
	m := &snapshotpb.Manifest{}
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, damaged("it is no message")
	}
	if err := ValidateManifest(m); err != nil {
		return nil, err
	}
	return m, nil
}

// ValidateManifest checks that a manifest is whole: an entry for every planned subtask, and every part in an object that it lists.
func ValidateManifest(m *snapshotpb.Manifest) error {
	bad := func(format string, args ...any) error {
		return &ForeignError{What: "the manifest is incomplete: " + fmt.Sprintf(format, args...), Hint: "sluice snapshot verify shows what is left"}
	}
	switch {
	case m.GetVersion() != ManifestVersion:
		return bad("its version is %d", m.GetVersion())
	case m.Job == "" || m.JobEpoch == 0 || m.Checkpoint == 0:
		return bad("it does not say what it is of")
	case m.Plan.GetGraph() == nil || len(m.Plan.Chains) == 0:
		return bad("it has no plan")
	}
	objects := map[string]int64{}
	for _, o := range m.Objects {
		if err := Name(o.GetName()).Validate(); err != nil {
			return bad("%v", err)
		}
		if o.Size < 0 || len(o.Digest) != sha256.Size {
			return bad("object %s has neither size nor digest", o.Name)
		}
		objects[o.Name] = o.Size
	}
	at := 0
	for _, c := range m.Plan.Chains {
		for i := range c.Parallelism {
			if at >= len(m.Subtasks) || m.Subtasks[at].GetChain() != c.Index || m.Subtasks[at].Index != i {
				return bad("subtask %d of %s is missing", i, c.Name)
			}
			if err := validateSubtask(m, c, m.Subtasks[at], objects); err != nil {
				return bad("subtask %d of %s: %v", i, c.Name, err)
			}
			at++
		}
	}
	if at != len(m.Subtasks) {
		return bad("it has %d subtasks, the plan %d", len(m.Subtasks), at)
	}
	return nil
}

func validateSubtask(m *snapshotpb.Manifest, c *jobpb.Chain, s *snapshotpb.SubtaskState, objects map[string]int64) error {
	switch s.Status {
	case snapshotpb.SubtaskStatus_NOT_STARTED, snapshotpb.SubtaskStatus_BOUNDED:
		if len(s.Operators) > 0 {
			return fmt.Errorf("it is %v, and has state", s.Status)
		}
	case snapshotpb.SubtaskStatus_RUNNING, snapshotpb.SubtaskStatus_FINISHED:
	default:
		return fmt.Errorf("status %v", s.Status)
	}
	known := map[string]bool{}
	for _, op := range c.Operators {
		if op < 0 || int(op) >= len(m.Plan.Graph.Operators) {
			return fmt.Errorf("its chain has operator %d of %d", op, len(m.Plan.Graph.Operators))
		}
		known[m.Plan.Graph.Operators[op].Id] = true
	}
	groups := m.Plan.Graph.MaxParallelism
	for _, o := range s.Operators {
		if !known[o.GetOperator()] {
			return fmt.Errorf("it has state of operator %q, which its chain has not", o.GetOperator())
		}
		known[o.Operator] = false // twice would be one too many
		for _, p := range o.Parts {
			size, listed := objects[p.Segment]
			switch {
			case !listed:
				return fmt.Errorf("a part lies in %s, which is not listed", p.Segment)
			case p.Offset < 0 || p.Size <= 0 || p.Offset > size-p.Size:
				return fmt.Errorf("a part lies at %d, %d bytes, in %s of %d bytes", p.Offset, p.Size, p.Segment, size)
			case p.First < 0 || p.First >= p.End || groups > 0 && p.End > groups:
				return fmt.Errorf("a part has key groups %d to %d of %d", p.First, p.End, groups)
			}
		}
	}
	return nil
}
