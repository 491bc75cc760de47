package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// Set are the segments of a checkpoint that is restored. Each is opened once, when the first of its parts is asked for.
type Set struct {
	stores    snapshot.Stores
	objects   map[string]*jobpb.StoredObject
	addresses []*taskpb.StoreAddress

	mu struct {
		sync.Mutex
		open map[string]snapshot.Reader
	}
}

// NewSet makes a set of objects, with where their stores answer.
func NewSet(stores snapshot.Stores, objects []*jobpb.StoredObject, addresses []*taskpb.StoreAddress) *Set {
	s := &Set{stores: stores, objects: map[string]*jobpb.StoredObject{}, addresses: addresses}
	for _, o := range objects {
		s.objects[o.GetObject().GetName()] = o
	}
	s.mu.open = map[string]snapshot.Reader{}
	return s
}

// Chunk opens the chunk of a part. It can be read until Close.
func (s *Set) Chunk(ctx context.Context, p *snapshotpb.Part) (*chunk.Reader, error) {
	r, err := s.segment(ctx, p.Segment)
	if err != nil {
		return nil, err
	}
	return Chunk(r, p)
}

func (s *Set) segment(ctx context.Context, name string) (snapshot.Reader, error) {
	o := s.objects[name]
	if o == nil {
		return nil, fmt.Errorf("%s: %w: nothing says where it is", name, snapshot.ErrNotFound)
	}
	s.mu.Lock()
	r := s.mu.open[name]
	s.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, err := s.stores.Open(ctx, o, s.addresses)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.mu.open[name]; other != nil { // opened meanwhile
		return other, r.Close()
	}
	s.mu.open[name] = r
	return r, nil
}

// Close closes all segments.
func (s *Set) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.mu.open {
		err = errors.Join(err, r.Close())
	}
	clear(s.mu.open)
	return err
}

// Chunk opens the chunk of a part in an open segment. A chunk that is not what a writer wrote is a *snapshot.DamagedError.
func Chunk(r snapshot.Reader, p *snapshotpb.Part) (*chunk.Reader, error) {
	damaged := func(err error) error { return &snapshot.DamagedError{Name: snapshot.Name(p.Segment), Cause: err} }
	if p.Offset < 0 || p.Size < 0 || p.Offset > r.Size() || p.Size > r.Size()-p.Offset {
		return nil, damaged(fmt.Errorf("part at %d of %d bytes, the segment has %d", p.Offset, p.Size, r.Size()))
	}
	c, err := chunk.NewReader(io.NewSectionReader(r, p.Offset, p.Size), p.Size)
	if errors.Is(err, chunk.ErrCorrupt) {
		return nil, damaged(fmt.Errorf("part at %d: %w", p.Offset, err))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: part at %d: %w", p.Segment, p.Offset, err)
	}
	return c, nil
}
