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

// Store is a store in memory. Objects do not change, so a reader keeps what it has opened.
type Store struct {
	mu struct {
		sync.Mutex
		objects map[snapshot.Name][]byte
	}
}

// New makes an empty store.
func New() *Store {
	s := &Store{}
	s.mu.objects = map[snapshot.Name][]byte{}
	return s
}

// Put implements snapshot.Store.
func (s *Store) Put(ctx context.Context, name snapshot.Name, size int64, from io.Reader) (*jobpb.Object, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	var held bytes.Buffer
	digest, err := snapshot.Copy(ctx, &held, from, size)
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.mu.objects[name]; ok && sha256.Sum256(old) != [sha256.Size]byte(digest) {
		return nil, fmt.Errorf("put %s: %w", name, snapshot.ErrExists)
	}
	s.mu.objects[name] = held.Bytes()
	return &jobpb.Object{Name: string(name), Size: size, Digest: digest}, nil
}

// Open implements snapshot.Store.
func (s *Store) Open(_ context.Context, name snapshot.Name) (snapshot.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.mu.objects[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, snapshot.ErrNotFound)
	}
	return reader{bytes.NewReader(data)}, nil
}

type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// Delete implements snapshot.Store.
func (s *Store) Delete(_ context.Context, names ...snapshot.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		delete(s.mu.objects, n)
	}
	return nil
}

// List implements snapshot.Store.
func (s *Store) List(_ context.Context, prefix string, each func(*jobpb.Object) error) error {
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.mu.objects))
	sizes := make([]int64, len(names))
	for i, n := range names {
		sizes[i] = int64(len(s.mu.objects[n]))
	}
	s.mu.Unlock()
	for i, n := range names {
		if !strings.HasPrefix(string(n), prefix) {
			continue
		}
		if err := each(&jobpb.Object{Name: string(n), Size: sizes[i]}); err != nil {
			return err
		}
	}
	return nil
}
