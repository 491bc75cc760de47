package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// SharedStore is how the places of objects call a store that everybody opens by itself.
const SharedStore = "shared"

// Shared are the Stores of a cluster that has a single store, which every process reaches: a directory, or an embedded
// job's own. How many copies there are is the store's business.
func Shared(s Store) Stores { return shared{s} }

type shared struct{ store Store }

func (s shared) Create(ctx context.Context, name Name) (Upload, error) {
	d, err := NewDraft(ctx, s.store, name)
	if err != nil {
		return nil, err
	}
	return sharedUpload{d}, nil
}

func (s shared) Open(ctx context.Context, o *jobpb.StoredObject, _ []*taskpb.StoreAddress) (Reader, error) {
	name := Name(o.GetObject().GetName())
	r, err := s.store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if r.Size() != o.Object.Size {
		size := r.Size()
		_ = r.Close() // it was only read
		return nil, &DamagedError{Name: name, Where: SharedStore, Cause: fmt.Errorf("%d bytes instead of %d", size, o.Object.Size)}
	}
	return r, nil
}

type sharedUpload struct{ Draft }

func (u sharedUpload) Commit(ctx context.Context, _ []*taskpb.StoreAddress, _ int) (*jobpb.StoredObject, error) {
	o, err := u.Draft.Commit(ctx)
	if err != nil {
		return nil, err
	}
	return &jobpb.StoredObject{Object: o, Stores: []string{SharedStore}}, nil
}

// NewDraft begins an object in a store. It is held in memory if the store takes it as a whole only.
func NewDraft(ctx context.Context, s Store, name Name) (Draft, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	if d, ok := s.(Drafter); ok {
		return d.Draft(ctx, name)
	}
	return &heldDraft{store: s, name: name}, nil
}

type heldDraft struct {
	bytes.Buffer
	store Store
	name  Name
}

func (d *heldDraft) Commit(ctx context.Context) (*jobpb.Object, error) {
	return d.store.Put(ctx, d.name, int64(d.Len()), bytes.NewReader(d.Bytes()))
}

func (d *heldDraft) Abort() { d.Buffer = bytes.Buffer{} }

// ErrLength is the error of an object that has fewer or more bytes than was said.
var ErrLength = fmt.Errorf("the object has not the size that was said")

// Copy writes exactly size bytes from from into to, and returns their digest.
func Copy(ctx context.Context, to io.Writer, from io.Reader, size int64) (digest []byte, err error) {
	h := sha256.New()
	buf := make([]byte, 64<<10)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		k, err := from.Read(buf)
		if n += int64(k); n > size {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLength, size)
		}
		h.Write(buf[:k])
		if _, werr := to.Write(buf[:k]); werr != nil {
			return nil, werr
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if n != size {
		return nil, fmt.Errorf("%w: %d of %d bytes", ErrLength, n, size)
	}
	return h.Sum(nil), nil
}

// Digest reads all of an open object.
func Digest(ctx context.Context, r Reader) ([]byte, error) {
	return Copy(ctx, io.Discard, io.NewSectionReader(r, 0, r.Size()), r.Size())
}

// Verify compares all of an open object with what is known of it: a *DamagedError if it differs.
func Verify(ctx context.Context, r Reader, o *jobpb.Object, where string) error {
	damaged := func(format string, args ...any) error {
		return &DamagedError{Name: Name(o.Name), Where: where, Cause: fmt.Errorf(format, args...)}
	}
	if r.Size() != o.Size {
		return damaged("%d bytes instead of %d", r.Size(), o.Size)
	}
	digest, err := Digest(ctx, r)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Name, err)
	}
	if !bytes.Equal(digest, o.Digest) {
		return damaged("digest %x instead of %x", digest, o.Digest)
	}
	return nil
}
