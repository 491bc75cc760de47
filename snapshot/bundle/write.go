package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"strconv"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/fs"
)

// ErrTaken is the error of a directory that is there already: it is not touched.
var ErrTaken = errors.New("it is there already")

// Source opens an object for reading from its first byte to its last. What it reads need not be trusted.
type Source func(ctx context.Context, o *jobpb.Object) (io.ReadCloser, error)

// Write makes dir from a manifest and what that names. Every object is compared with its digest on its way. After an error there
// is no dir, and of the objects nothing is left but what cannot be removed, under dir's name with the process number and .tmp.
func Write(ctx context.Context, fsys vfs.FS, dir string, manifest *jobpb.Object, from Source) (_ *Record, err error) {
	if _, err := fsys.Stat(dir); err == nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrTaken)
	} else if !errors.Is(err, iofs.ErrNotExist) {
		return nil, err
	}
	temp := dir + "." + strconv.Itoa(os.Getpid()) + vfs.TempSuffix
	store, err := fs.Open(fsys, temp)
	if err != nil {
		return nil, err
	}
	moved := false
	defer func() {
		if !moved {
			err = errors.Join(err, fsys.RemoveAll(temp))
		}
	}()
	w := &writer{store: store, from: from}
	r, err := w.all(ctx, manifest)
	if err != nil {
		return nil, err
	}
	b, err := encode(r)
	if err != nil {
		return nil, err
	}
	file := path.Join(temp, RecordFile)
	if err := vfs.Publish(fsys, file, b); err != nil {
		return nil, &snapshot.WriteError{Where: file, Bytes: int64(len(b)), Cause: err}
	}
	if err := fsys.Rename(temp, dir); err != nil {
		return nil, &snapshot.WriteError{Where: dir, Cause: err}
	}
	moved = true
	if err := fsys.SyncDir(path.Dir(dir)); err != nil {
		return nil, &snapshot.WriteError{Where: path.Dir(dir), Cause: err}
	}
	return r, nil
}

type writer struct {
	store *fs.Store
	from  Source
}

func (w *writer) all(ctx context.Context, manifest *jobpb.Object) (*Record, error) {
	if err := w.copy(ctx, manifest); err != nil {
		return nil, err
	}
	m, err := w.manifest(ctx, manifest)
	if err != nil {
		return nil, err
	}
	r := &Record{
		Job: m.Job, Checkpoint: m.Checkpoint, Manifest: manifest.Name, Size: manifest.Size, Digest: manifest.Digest, Objects: len(m.Objects), Bytes: manifest.Size,
	}
	for _, o := range m.Objects {
		if err := w.copy(ctx, o); err != nil {
			return nil, err
		}
		r.Bytes += o.Size
	}
	return r, nil
}

// manifest reads what was copied.
func (w *writer) manifest(ctx context.Context, o *jobpb.Object) (*snapshotpb.Manifest, error) {
	return snapshot.ReadManifest(ctx, snapshot.Shared(w.store), &jobpb.StoredObject{Object: o}, nil)
}

func (w *writer) copy(ctx context.Context, o *jobpb.Object) (err error) {
	if err := snapshot.CheckObject(o); err != nil {
		return err
	}
	r, err := w.from(ctx, o)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	got, err := w.store.Put(ctx, snapshot.Name(o.Name), o.Size, r)
	if errors.Is(err, snapshot.ErrLength) {
		return &snapshot.DamagedError{Name: snapshot.Name(o.Name), Cause: err}
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(got.Digest, o.Digest) {
		return &snapshot.DamagedError{Name: snapshot.Name(o.Name), Cause: fmt.Errorf("digest %x instead of %x", got.Digest, o.Digest)}
	}
	return nil
}
