package worker

import (
	"errors"
	"path"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/record"
)

func TestADamagedIdentityIsAnErrorAndNeverANewWorker(t *testing.T) {
	fsys := vfs.NewMem()
	if err := vfs.MakeDir(fsys, "data"); err != nil {
		t.Fatal(err)
	}
	if _, err := nextIncarnation(fsys, "data"); err != nil {
		t.Fatal(err)
	}
	good, err := vfs.ReadFile(fsys, path.Join("data", identityName))
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := append([]byte{}, good...)
		bad[i] ^= 1
		if err := vfs.Publish(fsys, path.Join("data", identityName), bad); err != nil {
			t.Fatal(err)
		}
		if id, err := nextIncarnation(fsys, "data"); !errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("byte %d flipped: %v, %v", i, id, err)
		}
	}
}

// Whatever fails, and wherever the power goes: an incarnation that a caller has seen is never handed out again.
func TestNoIncarnationIsUsedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := vfs.NewMem()
		if err := vfs.MakeDir(fsys, "data"); err != nil {
			t.Fatal(err)
		}
		id, highest := "", uint64(0)
		for range 10 {
			var shaky vfs.FS = fsys
			if rapid.Bool().Draw(t, "faults") {
				n, at := 0, rapid.IntRange(0, 8).Draw(t, "operation")
				shaky = vfs.WithFaults(fsys, func(vfs.Operation, string) vfs.Fault {
					n++
					if n == at {
						return vfs.Fault{Err: errors.New("disk"), Outcome: vfs.Outcome(rapid.IntRange(0, 2).Draw(t, "outcome"))}
					}
					return vfs.Fault{}
				})
			}
			got, err := nextIncarnation(shaky, "data")
			if err == nil {
				if got.Incarnation <= highest || id != "" && got.ID != id {
					t.Fatalf("%+v after %s, %d", got, id, highest)
				}
				id, highest = got.ID, got.Incarnation
			}
			if rapid.Bool().Draw(t, "crash") {
				fsys = fsys.TornClone(rapid.Uint64().Draw(t, "seed"))
			}
		}
	})
}

func FuzzIdentity(f *testing.F) {
	data, err := record.Encode(identityKind, identity{ID: "w-1", Incarnation: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte("sluice-worker 1\n{}\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := decodeIdentity(data)
		if err == nil && (id.ID == "" || id.Incarnation == 0) {
			t.Fatalf("%+v was believed", id)
		}
	})
}
