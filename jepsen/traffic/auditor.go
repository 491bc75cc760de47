package traffic

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

// Auditor reads the checkpoints that a job could go back to, as docs/format says that they lie in the workers' data directories: whole
// objects against the digests of manifests, and manifests against those of the cluster's facts. It asks no worker, so what it says holds
// for dead ones, too.
type Auditor struct {
	Client *Client
	Job    string
	Every  time.Duration

	told map[uint64]bool // ids that were said to be readable
	done map[uint64]bool // ids that were said to be completed

	mu struct {
		sync.Mutex
		excused map[string]bool
	}
}

// Excuse the file of an object that the scenario has damaged: the other copies have to do.
func (a *Auditor) Excuse(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.excused == nil {
		a.mu.excused = map[string]bool{}
	}
	a.mu.excused[path] = true
}

// Excused reports whether the file of an object was damaged on purpose.
func (a *Auditor) Excused(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.excused[path]
}

// Follow looks again and again until ctx ends. That is no error.
func (a *Auditor) Follow(ctx context.Context) error {
	for {
		if kept, err := a.kept(ctx); err == nil {
			a.look(ctx, kept, false)
		}
		if cluster.Rest(ctx, a.Every) != nil {
			return nil
		}
	}
}

// Last looks once more at everything, and waits for answers.
func (a *Auditor) Last(ctx context.Context) error {
	for {
		kept, err := a.kept(ctx)
		if err == nil {
			a.look(ctx, kept, true)
			return nil
		}
		if stop := cluster.Rest(ctx, 100*time.Millisecond); stop != nil {
			return fmt.Errorf("checkpoints of %s: %w", a.Job, errors.Join(stop, err))
		}
	}
}

func (a *Auditor) kept(ctx context.Context) (*apipb.CheckpointsResponse, error) {
	return once(ctx, a.Client, patience, func(ctx context.Context, c *grpc.ClientConn) (*apipb.CheckpointsResponse, error) {
		return apipb.NewJobsClient(c).Checkpoints(ctx, &apipb.CheckpointsRequest{Job: a.Job})
	})
}

func (a *Auditor) look(ctx context.Context, kept *apipb.CheckpointsResponse, again bool) {
	if a.told == nil {
		a.told, a.done = map[uint64]bool{}, map[uint64]bool{}
	}
	for _, h := range kept.History {
		if h.Completed && !a.done[h.Id] {
			a.done[h.Id] = true
			a.Client.log.Note(history.NoteCheckpoint, history.Checkpoint{Job: a.Job, ID: h.Id, What: history.Completed, Micros: h.EndedUs})
		}
	}
	read := map[string]error{} // objects of this look
	for _, c := range kept.Kept {
		fact := history.Checkpoint{Job: a.Job, ID: c.Id, What: history.Readable}
		if err := a.readable(c.Manifest, read); err != nil {
			if !a.still(ctx, c.Id) {
				continue // it was given up meanwhile, and what it consisted of may go
			}
			fact.What, fact.Text = history.Unreadable, err.Error()
		}
		if fact.What == history.Unreadable || again || !a.told[c.Id] {
			a.Client.log.Note(history.NoteCheckpoint, fact)
		}
		a.told[c.Id] = true
	}
}

// still reports whether a checkpoint is kept even now. Without an answer nothing is known.
func (a *Auditor) still(ctx context.Context, id uint64) bool {
	now, err := a.kept(ctx)
	return err == nil && slices.ContainsFunc(now.Kept, func(c *apipb.CheckpointInfo) bool { return c.Id == id })
}

// readable reads everything that a checkpoint consists of.
func (a *Auditor) readable(manifest *jobpb.Object, read map[string]error) error {
	raw, err := a.read(manifest)
	if err != nil {
		return err
	}
	m, err := parseManifest(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", manifest.GetName(), err)
	}
	for _, o := range m.Objects {
		err, known := read[o.Name]
		if !known {
			_, err = a.read(o)
			read[o.Name] = err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copies are the files of an object, one for each worker that has it.
func (a *Auditor) Copies(o *jobpb.Object) (files []string) {
	for _, n := range a.Client.c.Role(cluster.Worker) {
		name := filepath.Join(n.Dir(), "snapshots", filepath.FromSlash(o.GetName())+"@"+hex.EncodeToString(o.GetDigest()))
		if _, err := os.Stat(name); err == nil {
			files = append(files, name)
		}
	}
	return files
}

// read finds an intact copy. Another one that is not what was written is a fault all the same, unless the scenario has made it so.
func (a *Auditor) read(o *jobpb.Object) (content []byte, err error) {
	var errs []error
	for _, path := range a.Copies(o) {
		raw, err := os.ReadFile(path)
		sum := sha256.Sum256(raw)
		switch {
		case err == nil && string(sum[:]) == string(o.Digest):
			content = raw
		case errors.Is(err, os.ErrNotExist), a.Excused(path):
		case err != nil:
			errs = append(errs, err)
		default:
			errs = append(errs, fmt.Errorf("%s is damaged: %d bytes, want %d", path, len(raw), o.Size))
		}
	}
	if content == nil {
		errs = append(errs, fmt.Errorf("no intact copy of %s is anywhere", o.GetName()))
	}
	return content, errors.Join(errs...)
}

// Newest is the manifest of the newest checkpoint that a job keeps, and its object.
func (a *Auditor) Newest(ctx context.Context) (*snapshotpb.Manifest, *jobpb.Object, error) {
	kept, err := a.kept(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(kept.Kept) == 0 {
		return nil, nil, fmt.Errorf("job %s keeps no checkpoint", a.Job)
	}
	o := kept.Kept[len(kept.Kept)-1].Manifest
	raw, err := a.read(o)
	if err != nil {
		return nil, nil, err
	}
	m, err := parseManifest(raw)
	return m, o, err
}

// Stray are files of a job's snapshots that no kept checkpoint consists of.
func (a *Auditor) Stray(ctx context.Context) (files []string, err error) {
	kept, err := a.kept(ctx)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, c := range kept.Kept {
		raw, err := a.read(c.Manifest)
		if err != nil {
			return nil, err
		}
		m, err := parseManifest(raw)
		if err != nil {
			return nil, err
		}
		for _, o := range append(m.Objects, c.Manifest) {
			needed[o.Name] = true
		}
	}
	for _, n := range a.Client.c.Role(cluster.Worker) {
		root := filepath.Join(n.Dir(), "snapshots")
		err := filepath.WalkDir(filepath.Join(root, a.Job), func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			below, err := filepath.Rel(root, path)
			if name, _, _ := strings.Cut(filepath.ToSlash(below), "@"); !needed[name] {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// parseManifest reads docs/format/manifest.md; its bytes have the digest that they should have.
func parseManifest(raw []byte) (*snapshotpb.Manifest, error) {
	const magic, header = "SLUICE-M", 22
	if len(raw) < header || string(raw[:8]) != magic || binary.LittleEndian.Uint16(raw[8:]) != 1 {
		return nil, errors.New("this is no manifest of version 1")
	}
	content, err := s2.Decode(nil, raw[header:])
	if err != nil {
		return nil, err
	}
	m := &snapshotpb.Manifest{}
	return m, proto.Unmarshal(content, m)
}
