package traffic

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// manifest writes docs/format/manifest.md.
func manifest(t *testing.T, m *snapshotpb.Manifest) []byte {
	t.Helper()
	plain, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	content := s2.Encode(nil, plain)
	b := append([]byte("SLUICE-M"), 1, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(plain)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(append(b, content...), crc32.MakeTable(crc32.Castagnoli)))
	return append(b, content...)
}

// TestTheAuditorFindsWhatIsDamagedOrMissing spoils one copy, then another: one intact copy has to be there, and no damaged one unless it is excused.
func TestTheAuditorFindsWhatIsDamagedOrMissing(t *testing.T) {
	c, err := cluster.New(cluster.Options{Binary: "none", Dir: t.TempDir(), Coordinators: 1, Workers: 2, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a := &Auditor{Client: NewClient(c, nil, "auditor", 1, 1), Job: "j"}
	put := func(name string, content []byte) *jobpb.Object {
		sum := sha256.Sum256(content)
		o := &jobpb.Object{Name: name, Size: int64(len(content)), Digest: sum[:]}
		for _, n := range c.Role(cluster.Worker) {
			path := filepath.Join(n.Dir(), "snapshots", name+"@"+hex.EncodeToString(sum[:]))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	segment := put("j/1/7/3-0.segment", []byte("parts"))
	m := put("j/1/3-2.manifest", manifest(t, &snapshotpb.Manifest{Job: "j", Checkpoint: 3, Objects: []*jobpb.Object{segment}}))
	judge := func(want string) {
		t.Helper()
		err := a.readable(m, map[string]error{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	judge("")
	copies := a.Copies(segment)
	if len(copies) != 2 {
		t.Fatalf("%d copies", len(copies))
	}
	if err := os.WriteFile(copies[0], []byte("ports"), 0o600); err != nil {
		t.Fatal(err)
	}
	judge("is damaged")
	a.Excuse(copies[0])
	judge("")
	if err := os.Remove(copies[1]); err != nil {
		t.Fatal(err)
	}
	judge("no intact copy")
	if err := os.Truncate(a.Copies(m)[0], 5); err != nil {
		t.Fatal(err)
	}
	judge("is damaged")
}

func TestTheNameOfAPartFileSaysWhenItWasWritten(t *testing.T) {
	c, ok := output("rows/part-00012-0000000034~ledger-1~rows~2.5")
	if !ok || c.Subtask != "rows[12]" || c.ID != 34 || c.Epoch != 5 {
		t.Errorf("%+v, %v", c, ok)
	}
	for _, other := range []string{"", "part", "part-~", "rows/part-00000-0000000001~j~rows", "rows/part-x-1~j~rows~1.1", "rows/part-1-x~j~rows~1.1", "rows/part-1-1~j~rows~1"} {
		if c, ok := output(other); ok {
			t.Errorf("%q was taken for %+v", other, c)
		}
	}
}
