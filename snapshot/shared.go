package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Shared is the Stores of a cluster with one store that everybody reaches. name is what facts call it.
func Shared(name string, s Store) Stores { return &shared{name, s} }

type shared struct {
	name  string
	store Store
}

// Create collects the object in memory: shared stores take objects as a whole. Segments are cut to a size that allows it.
func (s *shared) Create(_ context.Context, name Name) (Upload, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	return &sharedUpload{s: s, name: name}, nil
}

func (s *shared) Open(ctx context.Context, o *jobpb.StoredObject, _ []*taskpb.StoreAddress) (Reader, error) {
	return OpenVerified(ctx, s.store, o.Object, s.name)
}

type sharedUpload struct {
	s    *shared
	name Name
	buf  bytes.Buffer
}

func (u *sharedUpload) Write(b []byte) (int, error) { return u.buf.Write(b) }

func (u *sharedUpload) Commit(ctx context.Context, _ []*taskpb.StoreAddress, _ int) (*jobpb.StoredObject, error) {
	o, err := u.s.store.Put(ctx, u.name, int64(u.buf.Len()), bytes.NewReader(u.buf.Bytes()))
	if err != nil {
		return nil, err
	}
	u.buf = bytes.Buffer{}
	return &jobpb.StoredObject{Object: o, Stores: []string{u.s.name}}, nil
}

func (u *sharedUpload) Abort() { u.buf = bytes.Buffer{} }

// OpenVerified opens an object and reads all of it once: what it returns has the size and the digest that o says. place names the
// store in errors.
func OpenVerified(ctx context.Context, s Store, o *jobpb.Object, place string) (Reader, error) {
	r, err := s.Open(ctx, Name(o.GetName()))
	if err != nil {
		return nil, err
	}
	if err := Verify(ctx, r, o, place); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Verify compares the bytes of an open object with its size and digest. A difference is a *DamagedError.
func Verify(ctx context.Context, r Reader, o *jobpb.Object, place string) error {
	if r.Size() != o.GetSize() {
		return &DamagedError{Name(o.GetName()), place, fmt.Sprintf("it has %d bytes, %d were written", r.Size(), o.GetSize())}
	}
	h := sha256.New()
	in := io.NewSectionReader(r, 0, r.Size())
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := io.CopyN(h, in, 4<<20)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s at %s: %w", o.GetName(), place, err)
		}
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, o.GetDigest()) {
		return &DamagedError{Name(o.GetName()), place, fmt.Sprintf("its SHA-256 is %x, %x was written", sum[:6], o.GetDigest()[:min(6, len(o.GetDigest()))])}
	}
	return nil
}

// ReadAll is the content of an object of at most limit bytes, verified.
func ReadAll(ctx context.Context, s Stores, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress, limit int64) ([]byte, error) {
	if o.GetObject().GetSize() > limit {
		return nil, &DamagedError{Name(o.GetObject().GetName()), "its entry", fmt.Sprintf("it claims %d bytes", o.GetObject().GetSize())}
	}
	r, err := s.Open(ctx, o, addresses)
	if err != nil {
		return nil, err
	}
	b := make([]byte, r.Size())
	_, err = r.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, errors.Join(err, r.Close())
}
