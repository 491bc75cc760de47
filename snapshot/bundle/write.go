package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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

// Source writes an object to to, from its first byte to its last. What it writes need not be trusted: if it is damaged, the next copy is
// asked for. Copy 0 is whichever is nearest, 1 and on are all there are; behind the last one it is ErrNoCopy, with nothing written.
type Source func(ctx context.Context, o *jobpb.Object, copy int, to io.Writer) error

// ErrNoCopy is the error of a Source that has no such copy.
var ErrNoCopy = errors.New("there is no other copy")

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

// copy copies an object from the first copy that is what it should be.
func (w *writer) copy(ctx context.Context, o *jobpb.Object) error {
	if err := snapshot.CheckObject(o); err != nil {
		return err
	}
	var errs []error
	for n := 0; ; n++ {
		err := w.take(ctx, o, n)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrNoCopy) && len(errs) > 0 {
			return errors.Join(errs...)
		}
		if errs = append(errs, fmt.Errorf("copy %s: %w", o.Name, err)); !errors.Is(err, snapshot.ErrDamaged) {
			return errors.Join(errs...)
		}
	}
}

// take stores one copy if it is the object.
func (w *writer) take(ctx context.Context, o *jobpb.Object, n int) error {
	damaged := func(format string, args ...any) error {
		return &snapshot.DamagedError{Name: snapshot.Name(o.Name), Cause: fmt.Errorf(format, args...)}
	}
	d, err := w.store.Draft(ctx, snapshot.Name(o.Name))
	if err != nil {
		return err
	}
	defer d.Abort()
	to := &exactly{Draft: d, sum: sha256.New(), left: o.Size}
	if err := w.from(ctx, o, n, to); errors.Is(err, snapshot.ErrLength) {
		return damaged("%w", err)
	} else if err != nil {
		return err
	}
	if to.left > 0 {
		return damaged("%w: %d of %d bytes", snapshot.ErrLength, o.Size-to.left, o.Size)
	}
	if digest := to.sum.Sum(nil); !bytes.Equal(digest, o.Digest) {
		return damaged("digest %x instead of %x", digest, o.Digest)
	}
	_, err = d.Commit(ctx)
	return err
}

// exactly takes no more bytes than an object has.
type exactly struct {
	snapshot.Draft
	sum  hash.Hash
	left int64
}

func (x *exactly) Write(p []byte) (int, error) {
	if x.left -= int64(len(p)); x.left < 0 {
		return 0, fmt.Errorf("%w: %d bytes too many", snapshot.ErrLength, -x.left)
	}
	x.sum.Write(p)
	return x.Draft.Write(p)
}
