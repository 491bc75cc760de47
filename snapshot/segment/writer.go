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
)

// Limit is the size at which a segment is closed and the next one begun, in bytes. A part is never split.
const Limit = 64 << 20

// Config says whose segments a Writer makes, and where they go.
type Config struct {
	Stores     snapshot.Stores
	Job        string
	JobEpoch   uint64
	Process    uint64
	Checkpoint uint64
	Targets    []*taskpb.StoreAddress
	Copies     int
	Limit      int64 // 0: Limit
}

// Writer makes the segments of one process for one checkpoint.
type Writer struct {
	cfg Config

	mu struct {
		sync.Mutex
		upload snapshot.Upload // nil: none is open
		name   snapshot.Name
		size   int64
		next   int
		done   []*jobpb.StoredObject
		err    error // the first; nothing is written after it
	}
}

// NewWriter makes a writer; nothing is stored before the first Put.
func NewWriter(cfg Config) *Writer {
	if cfg.Limit == 0 {
		cfg.Limit = Limit
	}
	return &Writer{cfg: cfg}
}

// Put adds a chunk, which write gives to its argument, and says where it is. part has the table and its key groups. The part may
// be named when Close, or Commit, has returned without error. After an error the writer is of no use.
func (w *Writer) Put(ctx context.Context, part *snapshotpb.Part, chunk io.WriterTo) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err != nil {
		return w.mu.err
	}
	w.mu.err = w.put(ctx, part, chunk)
	return w.mu.err
}

// put needs the lock.
func (w *Writer) put(ctx context.Context, part *snapshotpb.Part, chunk io.WriterTo) (err error) {
	if w.mu.upload != nil && w.mu.size >= w.cfg.Limit {
		if err := w.commit(ctx); err != nil {
			return err
		}
	}
	if w.mu.upload == nil {
		name := snapshot.Segment(w.cfg.Job, w.cfg.JobEpoch, w.cfg.Process, w.cfg.Checkpoint, w.mu.next)
		if w.mu.upload, err = w.cfg.Stores.Create(ctx, name); err != nil {
			return err
		}
		w.mu.name, w.mu.size = name, 0
		w.mu.next++ // a name that was tried is not tried again with other content
	}
	n, err := chunk.WriteTo(w.mu.upload)
	if err != nil {
		return fmt.Errorf("write a part of %s: %w", w.mu.name, err)
	}
	part.Segment, part.Offset, part.Size = string(w.mu.name), w.mu.size, n
	w.mu.size += n
	return nil
}

// commit closes the open segment. It needs the lock.
func (w *Writer) commit(ctx context.Context) error {
	if w.mu.upload == nil {
		return nil
	}
	o, err := w.mu.upload.Commit(ctx, w.cfg.Targets, w.cfg.Copies)
	w.mu.upload.Abort()
	w.mu.upload = nil
	if err != nil {
		return fmt.Errorf("store %s: %w", w.mu.name, err)
	}
	w.mu.done = append(w.mu.done, o)
	return nil
}

// Commit makes everything durable that was put so far, and returns all segments of this checkpoint. More may be put after it.
func (w *Writer) Commit(ctx context.Context) ([]*jobpb.StoredObject, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err == nil {
		w.mu.err = w.commit(ctx)
	}
	return append([]*jobpb.StoredObject(nil), w.mu.done...), w.mu.err
}

// ErrAborted is the error of a writer that was given up.
var ErrAborted = errors.New("the segment was given up")

// Abort gives up what was not committed.
func (w *Writer) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.upload != nil {
		w.mu.upload.Abort()
		w.mu.upload = nil
	}
	if w.mu.err == nil {
		w.mu.err = ErrAborted
	}
}
