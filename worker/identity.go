package worker

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/record"
)

// Names within the data directory; docs/format/workerdir.md.
const (
	lockName      = "lock"
	identityName  = "worker"
	artifactsName = "artifacts"
	processesName = "processes"
	resultsName   = "partitions"
	objectsName   = "snapshots"
)

const identityKind = "sluice-worker"

// identity is who this worker is, for ever, and how often it has started.
type identity struct {
	ID          string `json:"id"`
	Incarnation uint64 `json:"incarnation"`
}

// nextIncarnation reads the identity, counts one start and makes it durable before anyone can hear of it: an
// incarnation that was used once is never used again, also if the machine loses power now.
func nextIncarnation(fsys vfs.FS, dir string) (identity, error) {
	name := filepath.Join(dir, identityName)
	var id identity
	switch data, err := vfs.ReadFile(fsys, name); {
	case errors.Is(err, fs.ErrNotExist):
		id.ID = "w-" + strings.ToLower(rand.Text()[:12])
	case err != nil:
		return identity{}, fmt.Errorf("worker identity: %w", err)
	default:
		if id, err = decodeIdentity(data); err != nil {
			return identity{}, fmt.Errorf("worker identity: %s: %w", name, err)
		}
	}
	id.Incarnation++
	data, err := record.Encode(identityKind, id)
	if err != nil {
		return identity{}, fmt.Errorf("worker identity: %w", err)
	}
	if err := vfs.Publish(fsys, name, data); err != nil {
		return identity{}, fmt.Errorf("worker identity: %w", err)
	}
	return id, nil
}

func decodeIdentity(data []byte) (identity, error) {
	body, err := record.Decode(identityKind, data)
	if err != nil {
		return identity{}, err
	}
	var id identity
	if err := json.Unmarshal(body, &id); err != nil {
		return identity{}, fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	if id.ID == "" || id.Incarnation == 0 {
		return identity{}, fmt.Errorf("%w: id %q, incarnation %d", record.ErrCorrupt, id.ID, id.Incarnation)
	}
	return id, nil
}
