package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"time"

	"github.com/sluiceio/sluice/snapshot"
)

// stamp tells one state of a file from another.
type stamp struct {
	modified time.Time
	size     int64
}

// maxSound bounds the names of objects that were read once.
const maxSound = 1 << 14

// Sound opens an object whose digest has been compared. It is read whole the first time, and again after its file was written: whoever is
// served by ranges cannot compare it, and has to be sent to another copy. What differs is snapshot.ErrDamaged.
func (s *Store) Sound(ctx context.Context, name snapshot.Name) (snapshot.Reader, error) {
	r, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.compare(ctx, name, r); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (s *Store) compare(ctx context.Context, name snapshot.Name, r snapshot.Reader) error {
	o, err := s.find(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	info, err := s.fs.Stat(s.file(o))
	if errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("open %s: %w", name, snapshot.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	is := stamp{info.ModTime(), info.Size()}
	s.mu.Lock()
	was, known := s.mu.sound[name]
	s.mu.Unlock()
	if known && was == is {
		return nil
	}
	if err := snapshot.Verify(ctx, r, o, s.dir); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.sound == nil || len(s.mu.sound) >= maxSound {
		s.mu.sound = map[snapshot.Name]stamp{}
	}
	s.mu.sound[name] = is
	return nil
}
