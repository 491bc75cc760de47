// Package mem is a store in memory, for tests and for embedded jobs that keep nothing in files.
package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
)

// Store keeps objects in memory.
type Store struct {
	mu struct {
		sync.Mutex
		objects map[snapshot.Name][]byte
	}
}

// New is an empty store.
func New() *Store {
	s := &Store{}
	s.mu.objects = map[snapshot.Name][]byte{}
	return s
}

var _ snapshot.Store = (*Store)(nil)

// Put keeps a copy.
func (s *Store) Put(ctx context.Context, name snapshot.Name, size int64, from io.Reader) (*jobpb.Object, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(from, size+1))
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", name, err)
	}
	if int64(len(b)) != size {
		return nil, fmt.Errorf("put %s: %d bytes were announced, %d came", name, size, len(b))
	}
	sum := sha256.Sum256(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.mu.objects[name]; ok && !bytes.Equal(have, b) {
		return nil, &snapshot.StoreError{Place: "memory", Bytes: size, Err: fmt.Errorf("%s exists with another content", name)}
	}
	s.mu.objects[name] = b
	return &jobpb.Object{Name: string(name), Size: size, Digest: sum[:]}, nil
}

// Open opens an object.
func (s *Store) Open(_ context.Context, name snapshot.Name) (snapshot.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.mu.objects[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, snapshot.ErrNotFound)
	}
	return reader{bytes.NewReader(b)}, nil
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// Delete forgets objects.
func (s *Store) Delete(_ context.Context, names ...snapshot.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		delete(s.mu.objects, n)
	}
	return nil
}

// List lists objects.
func (s *Store) List(_ context.Context, prefix string, each func(*jobpb.Object) error) error {
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.mu.objects))
	sizes := make([]int, len(names))
	for i, n := range names {
		sizes[i] = len(s.mu.objects[n])
	}
	s.mu.Unlock()
	for i, n := range names {
		if !strings.HasPrefix(string(n), prefix) {
			continue
		}
		if err := each(&jobpb.Object{Name: string(n), Size: int64(sizes[i])}); err != nil {
			return err
		}
	}
	return nil
}
