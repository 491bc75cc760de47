package blob

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/memblob"
	_ "gocloud.dev/blob/s3blob"

	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/storetest"
)

func open(t *testing.T, where string) *Store {
	t.Helper()
	b, err := blob.OpenBucket(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(b, where)
}

// lose deletes an object behind the store's back.
func lose(t *testing.T, s snapshot.Store, n snapshot.Name) {
	t.Helper()
	if err := s.(*Store).bucket.Delete(t.Context(), string(n)); err != nil {
		t.Fatal(err)
	}
}

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Config{Open: func(t *testing.T) snapshot.Store { return open(t, "mem://") }, Lose: lose, Forgets: true})
}

func TestDirectory(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) snapshot.Store {
			return open(t, "file://"+filepath.ToSlash(t.TempDir())+"?no_tmp_dir=true&metadata=skip")
		},
		Lose: lose, Forgets: true,
	})
}

// service is a server of the S3 protocol whose answers to writes can be broken.
type service struct {
	http.Handler
	fault atomic.Int32
	hits  atomic.Int32
	parts atomic.Int32 // of writes in several
}

// What happens to the last step of a write: the request, or the one that puts its parts together.
const (
	sound     = iota
	refused   // it does not happen
	unheard   // it happens, and the answer is lost
	pretended // it is acknowledged, and does not happen
)

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Has("partNumber") {
		s.parts.Add(1)
	}
	if single := r.Method == http.MethodPut && !q.Has("partNumber"); !single && !(r.Method == http.MethodPost && q.Has("uploadId")) {
		s.Handler.ServeHTTP(w, r)
		return
	}
	switch s.fault.Load() {
	case refused:
		s.hits.Add(1)
		http.Error(w, "<Error><Code>AccessDenied</Code><Message>the bucket takes nothing</Message></Error>", http.StatusForbidden)
	case unheard:
		s.hits.Add(1)
		s.Handler.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, "<Error><Code>AccessDenied</Code><Message>the answer was lost</Message></Error>", http.StatusForbidden)
	case pretended:
		s.hits.Add(1)
		w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	default:
		s.Handler.ServeHTTP(w, r)
	}
}

// s3 starts a server with an empty bucket.
func s3(t *testing.T) (*Store, *service) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("snapshots"); err != nil {
		t.Fatal(err)
	}
	s := &service{Handler: gofakes3.New(backend).Server()}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "password")
	return open(t, "s3://snapshots?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(server.URL)), s
}

func TestS3(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) snapshot.Store {
			s, _ := s3(t)
			return s
		},
		Lose: lose, Forgets: true,
	})
}

func name(n int) snapshot.Name { return snapshot.Segment("job-1", 1, 7, 3, n) }

// TestWritesOfAServiceThatFails: what was refused is not there, what happened unheard may be put again, and what was acknowledged and
// did not happen is found by whoever reads it back.
func TestWritesOfAServiceThatFails(t *testing.T) {
	store, s := s3(t)
	for _, size := range []int{999, 40 << 20} { // in one request, and in several parts
		data := bytes.Repeat([]byte("state"), size/5)
		put := func(n int) error {
			o, err := store.Put(t.Context(), name(n), int64(len(data)), bytes.NewReader(data))
			if err == nil && o.Size != int64(len(data)) {
				t.Errorf("put %v", o)
			}
			return err
		}
		there := func(n int) bool {
			r, err := store.Open(t.Context(), name(n))
			if errors.Is(err, snapshot.ErrNotFound) {
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, r.Size())
			if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d other bytes: %v", len(got), err)
			}
			return errors.Join(r.Close()) == nil
		}
		var w *snapshot.WriteError
		for fault, happens := range map[int32]bool{refused: false, unheard: true} {
			n := size + int(fault)
			s.fault.Store(fault)
			if err := put(n); !errors.As(err, &w) || !strings.Contains(err.Error(), "E151") || !strings.Contains(w.Where, "s3://snapshots") {
				t.Errorf("fault %d, %d bytes: %v", fault, size, err)
			}
			s.fault.Store(sound)
			if there(n) != happens {
				t.Errorf("fault %d, %d bytes: it is there: %v", fault, size, !happens)
			}
			if err := put(n); err != nil || !there(n) {
				t.Errorf("fault %d, %d bytes, put again: %v", fault, size, err)
			}
		}
	}
	s.fault.Store(pretended)
	data := []byte("manifest")
	_, err := snapshot.Publish(t.Context(), snapshot.Shared(store), snapshot.Manifest("job-1", 1, 3, 2), data, nil, 1)
	if !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("published into a store that loses what it acknowledges: %v", err)
	}
	if s.hits.Load() == 0 || s.parts.Load() == 0 {
		t.Errorf("%d requests were broken, %d parts were written", s.hits.Load(), s.parts.Load())
	}
}
