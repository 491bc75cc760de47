package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/internal/localfile"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/internal/vfs"
)

// Text writes one line per record into part files below dir, exactly once. line appends the text of a record, without
// line break, to dst and returns the extended slice.
//
// Part files are named by subtask first, so that their order by name is the order of the subtasks. While in progress
// they stand in the directory .tmp below dir; all task processes of a job must see the same dir.
//
// Jobs with different ids may share dir. A job that finds output of its own id there at its very beginning fails: it
// stems from another run, and together they would be neither's output. What a killed run of a job has left in progress
// that ran in one process does not hinder the next one, which removes it.
func Text[T any](dir string, line func(dst []byte, v T) []byte) connector.Sink[T] {
	return &sink[T]{fs: vfs.OS{}, dir: dir, line: line}
}

type sink[T any] struct {
	fs   vfs.FS
	dir  string
	line func(dst []byte, v T) []byte
	// claim of this process; of use only to jobs that live in one.
	claim claim
}

func (s *sink[T]) Guarantee() connector.Guarantee { return connector.ExactlyOnce }

// String is the detail that a plan shows.
func (s *sink[T]) String() string { return s.dir }

func (s *sink[T]) OpenWriter(_ context.Context, t *connector.Task, _ [][]byte) (connector.Writer[T], error) {
	if err := localfile.Anchored("output directory", s.dir); err != nil {
		return nil, err
	}
	if err := vfs.MakeDir(s.fs, filepath.Join(s.dir, tmpDir)); err != nil {
		return nil, connector.Fatal(fmt.Errorf("output: %w", err))
	}
	self := partOf(t)
	if err := s.refuseForeign(self, max(1, t.Parallelism)); err != nil {
		return nil, err
	}
	if t.Whole {
		if err := s.claim.enter(s.fs, s.dir, self); err != nil {
			return nil, err
		}
	}
	return &writer[T]{sink: s, part: self, next: 1, claims: t.Whole}, nil
}

// partOf is what the names of an attempt's files have in common.
func partOf(t *connector.Task) part {
	return part{job: t.Job, sink: t.Operator, subtask: t.Subtask, jobEpoch: t.JobEpoch, regionEpoch: t.RegionEpoch}
}

// refuseForeign fails a first attempt that finds published output under its own id: nothing of this job can be there.
// Subtask i looks for that of all indices ≡ i, since the other run may have had more subtasks.
func (s *sink[T]) refuseForeign(self part, parallelism int) error {
	if self.jobEpoch != 1 || self.regionEpoch != 1 {
		return nil
	}
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	for _, e := range entries {
		p, ok := parse(e.Name())
		if ok && p.job == self.job && p.sink == self.sink && p.subtask%parallelism == self.subtask {
			return connector.Fatal(fmt.Errorf("output directory %s holds the output of an earlier run of job %s, which this run's would be mixed with\n  fix: empty the directory (rm -r %s), or write into another one", s.dir, self.job, s.dir))
		}
	}
	return nil
}

func (s *sink[T]) OpenCommitter(_ context.Context, t *connector.Task) (connector.Committer, error) {
	return &committer{fs: s.fs, dir: s.dir, self: partOf(t), parallelism: max(1, t.Parallelism), claim: &s.claim}, nil
}

// writer fills one part file between two Prepares; the file's checkpoint is that of the Prepare to come.
type writer[T any] struct {
	sink *sink[T]
	part part // of the open file, and of the next one
	next element.CheckpointID
	file vfs.File // nil: nothing written since the last Prepare
	out  *bufio.Writer
	row  []byte
	// claims: it counts in the claim of its process.
	claims bool
}

func (w *writer[T]) Write(_ context.Context, v T, _ element.Time) error {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	w.row = append(w.sink.line(w.row[:0], v), '\n')
	_, err := w.out.Write(w.row)
	return err
}

func (w *writer[T]) open() error {
	w.part.checkpoint = w.next
	f, err := vfs.CreateNew(w.sink.fs, w.path())
	if errors.Is(err, fs.ErrExist) {
		return connector.Fatal(fmt.Errorf("output %s exists: another run under the job id %s writes there, or was killed\n  fix: if it was killed remove %s, otherwise write into another directory",
			w.path(), w.part.job, w.path()))
	}
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	w.file = f
	if w.out == nil {
		w.out = bufio.NewWriterSize(f, 256<<10)
	}
	w.out.Reset(f)
	return nil
}

func (w *writer[T]) path() string { return filepath.Join(w.sink.dir, tmpDir, w.part.name()) }

func (w *writer[T]) Flush(context.Context) error {
	if w.file == nil {
		return nil
	}
	return w.out.Flush()
}

func (w *writer[T]) End(context.Context) error { return nil }

// Prepare makes the open file durable under its own name. The names of all files of one checkpoint differ in n.
func (w *writer[T]) Prepare(ctx context.Context, id element.CheckpointID) ([]connector.Committable, error) {
	w.next = id + 1
	if w.file == nil {
		return nil, nil
	}
	if err := w.finish(); err != nil {
		return nil, fmt.Errorf("output %s: %w", w.path(), err)
	}
	if w.claims {
		w.sink.claim.keep(w.part.name())
	}
	if invariant.Without("commit-after-completion") {
		if err := w.sink.fs.Rename(w.path(), filepath.Join(w.sink.dir, w.part.name())); err != nil {
			return nil, err
		}
	}
	return []connector.Committable{{Subtask: w.part.subtask, Checkpoint: id, Data: []byte(w.part.name())}}, nil
}

// finish makes the open file durable, bytes and name. After a failure it stays open, for Close to discard.
func (w *writer[T]) finish() error {
	if err := errors.Join(w.out.Flush(), w.file.Sync()); err != nil {
		return err
	}
	if err := w.sink.fs.SyncDir(filepath.Join(w.sink.dir, tmpDir)); err != nil {
		return err
	}
	f := w.file
	w.file = nil
	return f.Close()
}

func (w *writer[T]) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }

// Close discards a file that was not prepared.
func (w *writer[T]) Close() (err error) {
	if w.file != nil {
		err = errors.Join(w.file.Close(), w.sink.fs.Remove(w.path()))
		w.file = nil
	}
	if w.claims {
		w.claims = false
		err = errors.Join(err, w.sink.claim.leave())
	}
	return err
}
