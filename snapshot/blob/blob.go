package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Store is a bucket of objects.
type Store struct {
	bucket *blob.Bucket
	where  string
}

// New uses a bucket, which stays the caller's to close. where names it in errors, for example its URL without secrets.
func New(bucket *blob.Bucket, where string) *Store { return &Store{bucket: bucket, where: where} }

// Put implements snapshot.Store.
func (s *Store) Put(ctx context.Context, name snapshot.Name, size int64, from io.Reader) (*jobpb.Object, error) {
	d, err := s.draft(ctx, name)
	if err != nil {
		return nil, err
	}
	defer d.Abort()
	if _, err := snapshot.Copy(ctx, d, from, size); err != nil {
		return nil, fmt.Errorf("put %s: %w", name, err)
	}
	return d.Commit(ctx)
}

// Draft implements snapshot.Drafter. ctx bounds the whole upload.
func (s *Store) Draft(ctx context.Context, name snapshot.Name) (snapshot.Draft, error) {
	return s.draft(ctx, name)
}

func (s *Store) draft(ctx context.Context, name snapshot.Name) (*draft, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	d := &draft{store: s, name: name, sum: sha256.New()}
	there, err := s.bucket.Exists(ctx, string(name))
	if err != nil {
		return nil, s.failed(name, 0, err)
	}
	if there { // what is written is only compared
		return d, nil
	}
	upload, cancel := context.WithCancel(ctx)
	w, err := s.bucket.NewWriter(upload, string(name), &blob.WriterOptions{IfNotExist: true, ContentType: "application/octet-stream"})
	if err != nil {
		cancel()
		return nil, s.failed(name, 0, err)
	}
	d.w, d.cancel = w, cancel
	return d, nil
}

// failed is the error of a write.
func (s *Store) failed(name snapshot.Name, size int64, cause error) error {
	return &snapshot.WriteError{Where: s.where + ": " + string(name), Bytes: size, Cause: cause}
}

// draft is an upload. The service shows nothing of it before its end.
type draft struct {
	store  *Store
	name   snapshot.Name
	w      *blob.Writer // nil: there is nothing to write, or it was closed
	cancel func()
	sum    hash.Hash
	size   int64
	err    error // the first; nothing is published after it
}

func (d *draft) Write(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.w != nil {
		if n, err := d.w.Write(p); err != nil {
			if gcerrors.Code(err) != gcerrors.FailedPrecondition {
				d.err = d.store.failed(d.name, int64(len(p)), err)
				return n, d.err
			}
			d.drop() // somebody was faster: what follows is only compared
		}
	}
	d.sum.Write(p)
	d.size += int64(len(p))
	return len(p), nil
}

// drop ends the upload without publishing anything.
func (d *draft) drop() {
	if d.w == nil {
		return
	}
	d.cancel()
	_ = d.w.Close() // its error is the cancellation
	d.w = nil
}

// Commit implements snapshot.Draft.
func (d *draft) Commit(ctx context.Context) (*jobpb.Object, error) {
	if d.err != nil {
		return nil, d.err
	}
	d.err = fmt.Errorf("put %s: committed or given up already", d.name)
	o := &jobpb.Object{Name: string(d.name), Size: d.size, Digest: d.sum.Sum(nil)}
	if d.w != nil {
		err := d.w.Close()
		d.cancel()
		d.w = nil
		if err == nil {
			return o, nil
		}
		if gcerrors.Code(err) != gcerrors.FailedPrecondition {
			return nil, d.store.failed(d.name, d.size, err)
		}
	}
	return o, d.store.compare(ctx, o)
}

// Abort implements snapshot.Draft.
func (d *draft) Abort() {
	d.drop()
	if d.err == nil {
		d.err = fmt.Errorf("put %s: given up", d.name)
	}
}

// compare reports whether what is there is what should have been written.
func (s *Store) compare(ctx context.Context, o *jobpb.Object) error {
	r, err := s.bucket.NewReader(ctx, o.Name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return s.failed(snapshot.Name(o.Name), o.Size, errors.New("it was there, and is gone"))
	}
	if err != nil {
		return fmt.Errorf("put %s: compare with what is there: %w", o.Name, err)
	}
	digest, err := snapshot.Copy(ctx, io.Discard, r, r.Size())
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("put %s: compare with what is there: %w", o.Name, err)
	}
	if !bytes.Equal(digest, o.Digest) {
		return fmt.Errorf("put %s: %w", o.Name, snapshot.ErrExists)
	}
	return nil
}

// Delete implements snapshot.Store.
func (s *Store) Delete(ctx context.Context, names ...snapshot.Name) error {
	for _, n := range names {
		if err := n.Validate(); err != nil {
			return err
		}
		if err := s.bucket.Delete(ctx, string(n)); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("delete %s: %s: %w", n, s.where, err)
		}
	}
	return nil
}

// List implements snapshot.Store, without digests. Keys that are no names are no objects.
func (s *Store) List(ctx context.Context, prefix string, each func(*jobpb.Object) error) error {
	it := s.bucket.List(&blob.ListOptions{Prefix: prefix})
	var all []*jobpb.Object
	for {
		x, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("list objects: %s: %w", s.where, err)
		}
		if !x.IsDir && snapshot.Name(x.Key).Validate() == nil {
			all = append(all, &jobpb.Object{Name: x.Key, Size: x.Size})
		}
	}
	// Services list by bytes, directories by elements of the path.
	slices.SortFunc(all, func(a, b *jobpb.Object) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range all {
		if err := each(o); err != nil {
			return err
		}
	}
	return nil
}
