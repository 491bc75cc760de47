package traffic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
)

// Reader follows the part files below a directory, as a consumer that trusts what is committed: it reads each once, when it
// appears, and complains of each that is not there any more or has changed.
type Reader struct {
	Log *history.Recorder
	Job string
	Dir string // of the job's output
	// Checkpointed: names of files say to which checkpoint they belong.
	Checkpointed bool

	seen map[string]int64
	gone map[string]bool
}

// rowsOfANote bounds a line of the history.
const rowsOfANote = 5000

// Follow looks again and again until ctx ends. That is no error.
func (r *Reader) Follow(ctx context.Context) error {
	for {
		if err := r.Look(); err != nil {
			return err
		}
		if cluster.Rest(ctx, 200*time.Millisecond) != nil {
			return nil
		}
	}
}

// Look reads what is new.
func (r *Reader) Look() error {
	if r.seen == nil {
		r.seen, r.gone = map[string]int64{}, map[string]bool{}
	}
	there, err := parts(r.Dir)
	if err != nil {
		return err
	}
	for name, was := range r.seen {
		if is, ok := there[name]; (!ok || is != was) && !r.gone[name] {
			how := "removed"
			if ok {
				how = "changed in size"
			}
			r.gone[name] = true
			r.Log.Note(history.NoteVanished, history.Vanished{Job: r.Job, Part: name, How: how})
		}
	}
	for name := range there {
		if _, ok := r.seen[name]; ok {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(r.Dir, name))
		if errors.Is(err, fs.ErrNotExist) { // between the listing and the reading
			r.Log.Note(history.NoteVanished, history.Vanished{Job: r.Job, Part: name, How: "removed"})
			r.gone[name] = true
		} else if err != nil {
			return err
		}
		if fact, ok := output(name); ok && r.Checkpointed {
			fact.Job, fact.Micros = r.Job, time.Now().UnixMicro()
			r.Log.Note(history.NoteCheckpoint, fact)
		}
		r.seen[name] = int64(len(raw))
		rows := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
		for some := range slices.Chunk(rows, rowsOfANote) {
			r.Log.Note(history.NoteRows, history.Rows{Job: r.Job, Part: name, Rows: some})
		}
	}
	return nil
}

// output takes the name of a part file apart: DIRECTORY/part-SUBTASK-NUMBER~JOB~SINK~JOBEPOCH.REGIONEPOCH. The number is the least id of a
// checkpoint that can have prepared it.
func output(name string) (c history.Checkpoint, ok bool) {
	fields := strings.Split(filepath.Base(name), "~")
	head, isPart := strings.CutPrefix(fields[0], "part-")
	subtask, id, cut := strings.Cut(head, "-")
	if len(fields) != 4 || !isPart || !cut {
		return c, false
	}
	_, epoch, cut := strings.Cut(fields[3], ".")
	n, err := strconv.Atoi(subtask)
	c.What, c.Subtask = history.Committed, fmt.Sprintf("%s[%d]", filepath.ToSlash(filepath.Dir(name)), n)
	errs := [3]error{2: err}
	c.ID, errs[0] = strconv.ParseUint(id, 10, 64)
	c.Epoch, errs[1] = strconv.ParseUint(epoch, 10, 64)
	return c, cut && errors.Join(errs[:]...) == nil
}

// EpochOf is the epoch of the region in which a part file was written.
func EpochOf(part string) (epoch uint64, ok bool) {
	c, ok := output(part)
	return c.Epoch, ok
}

// parts are the visible files below dir, with their sizes. Hidden ones are output in progress.
func parts(dir string) (map[string]int64, error) {
	found := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Size()
		return err
	})
	return found, err
}

// Unfinished are the hidden files below dir: output that was never committed nor removed.
func Unfinished(dir string) (left []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && strings.Contains(strings.TrimPrefix(path, dir), string(filepath.Separator)+".") {
			left = append(left, path)
		}
		return err
	})
	return left, err
}

// Committed are the rows of the visible files below dir, sorted.
func Committed(dir string) (rows []string, err error) {
	there, err := parts(dir)
	if err != nil {
		return nil, err
	}
	for name := range there {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		rows = append(rows, slices.DeleteFunc(strings.Split(string(raw), "\n"), func(r string) bool { return r == "" })...)
	}
	slices.Sort(rows)
	return rows, nil
}
