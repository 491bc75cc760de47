package stored

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"time"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

const (
	// outputBuffer gathers blocks for a write, in bytes: two full ones at least.
	outputBuffer = 160 << 10
	// indexBuffer gathers entries of the index, in bytes.
	indexBuffer = 32 << 10
	// syncEvery bounds what is left to be synced at the end, in bytes, so that the end does not take minutes.
	syncEvery = 256 << 20
)

// output is the files of a partition that is being written. Records arrive as payloads of blocks, run by run; nothing
// of it is seen by readers before publish.
type output struct {
	store   *Store
	coder   func() (*partition.Coder, error)
	form    partition.Form
	summary partition.Summary
	data    sink
	index   sink
	digest  hash.Hash
	extents []partition.Extent // of the open run, by subpartition
	blocked time.Duration      // in the file system
}

// sink is one file under its temporary name.
type sink struct {
	path     string // that it will have
	file     vfs.File
	buf      []byte // not written yet
	at       int64  // bytes written and in buf
	unsynced int64
}

// newOutput makes the files of a partition.
func newOutput(s *Store, summary partition.Summary) (o *output, err error) {
	o = &output{store: s, summary: summary, digest: sha256.New(), extents: make([]partition.Extent, summary.Consumers)}
	o.data.path, o.index.path = s.path(summary.Name, partition.DataSuffix), s.path(summary.Name, partition.IndexSuffix)
	defer o.timed(time.Now())
	// The directory is removed when its last partition is dropped, perhaps just now.
	for try := 0; try < 3; try++ {
		if err = o.create(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(&WriteError{Path: o.data.path, Cause: err}, o.discard())
	}
	o.data.buf = make([]byte, 0, outputBuffer)
	o.index.buf = make([]byte, 0, indexBuffer)
	o.data.buf = partition.AppendDataHeader(o.data.buf, summary.Name)
	o.index.buf = partition.AppendIndexHeader(o.index.buf)
	o.data.at, o.index.at = int64(len(o.data.buf)), int64(len(o.index.buf))
	return o, nil
}

func (o *output) create() error {
	if err := vfs.MakeDir(o.store.fs, path.Dir(o.data.path)); err != nil {
		return err
	}
	for _, f := range []*sink{&o.data, &o.index} {
		if f.file != nil {
			continue
		}
		file, err := vfs.CreateNew(o.store.fs, f.path+vfs.TempSuffix)
		if err != nil {
			return err
		}
		f.file = file
	}
	return nil
}

func (o *output) timed(since time.Time) { o.blocked += time.Since(since) }

// flush writes what is in the buffer of f.
func (o *output) flush(f *sink) error {
	if len(f.buf) == 0 {
		return nil
	}
	defer o.timed(time.Now())
	if _, err := f.file.Write(f.buf); err != nil {
		return &WriteError{Path: f.path, Bytes: int64(len(f.buf)), Cause: err}
	}
	f.unsynced += int64(len(f.buf))
	f.buf = f.buf[:0]
	if f.unsynced >= syncEvery {
		return o.sync(f)
	}
	return nil
}

func (o *output) sync(f *sink) error {
	if err := f.file.Sync(); err != nil {
		return &WriteError{Path: f.path, Cause: fmt.Errorf("sync: %w", err)}
	}
	f.unsynced = 0
	return nil
}

// add writes one block of subpartition sub. Blocks of a run come subpartition by subpartition.
func (o *output) add(sub int, payload []byte, b partition.Block) error {
	coder, err := o.coder()
	if err != nil {
		return err
	}
	f := &o.data
	room := partition.BlockHeader + partition.PackRoom(len(payload))
	if cap(f.buf)-len(f.buf) < room {
		if err := o.flush(f); err != nil {
			return err
		}
	}
	buf := f.buf
	if cap(buf) < room { // a single record; its memory was reserved with it
		buf = make([]byte, 0, room)
	}
	start := len(buf)
	buf = coder.Pack(buf[:start+partition.BlockHeader], payload, o.form, &b)
	b.Put(buf[start:])
	e := &o.extents[sub]
	if e.Blocks == 0 {
		e.Offset = f.at
	}
	e.Blocks++
	e.Records += b.Records
	e.Bytes += b.Size()
	e.Sum = partition.SumHeader(e.Sum, buf[start:])
	o.summary.Blocks++
	o.summary.Records += int64(b.Records)
	f.at += b.Size()
	if cap(buf) == cap(f.buf) {
		f.buf = buf
		return nil
	}
	kept := f.buf
	f.buf = buf
	err = o.flush(f)
	f.buf = kept[:0]
	return err
}

// endRun closes a run: what comes next lies behind it.
func (o *output) endRun() error {
	for sub := range o.extents {
		e := &o.extents[sub]
		if e.Blocks == 0 {
			e.Offset = o.data.at
		}
		if cap(o.index.buf)-len(o.index.buf) < partition.ExtentLen {
			if err := o.flushIndex(); err != nil {
				return err
			}
		}
		o.index.buf = partition.AppendExtent(o.index.buf, *e, o.summary.Runs, int32(sub))
		*e = partition.Extent{}
	}
	o.summary.Runs++
	o.index.at += int64(len(o.extents)) * partition.ExtentLen
	return nil
}

func (o *output) flushIndex() error {
	o.digest.Write(o.index.buf)
	return o.flush(&o.index)
}

// publish makes the partition durable and visible, in this order: the bytes of both files, the name of the data file,
// the name of the index. So an index that exists after a crash has its data.
func (o *output) publish(end element.Time) (Found, error) {
	o.summary.End, o.summary.DataBytes = end, o.data.at
	if err := o.flush(&o.data); err != nil {
		return Found{}, err
	}
	if cap(o.index.buf)-len(o.index.buf) < partition.MaxFooter {
		if err := o.flushIndex(); err != nil {
			return Found{}, err
		}
	}
	o.index.buf = partition.AppendFooter(o.index.buf, &o.summary)
	if err := o.flushIndex(); err != nil {
		return Found{}, err
	}
	defer o.timed(time.Now())
	for _, f := range []*sink{&o.data, &o.index} {
		if err := o.sync(f); err != nil {
			return Found{}, err
		}
		file := f.file
		f.file = nil
		if err := file.Close(); err != nil {
			return Found{}, &WriteError{Path: f.path, Cause: err}
		}
	}
	for _, f := range []*sink{&o.data, &o.index} {
		err := o.store.fs.Rename(f.path+vfs.TempSuffix, f.path)
		if err == nil {
			err = o.store.fs.SyncDir(path.Dir(f.path))
		}
		if err != nil {
			return Found{}, &WriteError{Path: f.path, Cause: err}
		}
	}
	found := Found{o.summary.Name, o.summary.DataBytes + o.summary.IndexBytes()}
	o.store.Learn(found)
	return found, nil
}

// discard removes whatever there is. It may be called after a failed publish: the index may be there then, complete, and
// goes first.
func (o *output) discard() error {
	var err error
	for _, f := range []*sink{&o.index, &o.data} {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
			f.file = nil
		}
		for _, name := range []string{f.path, f.path + vfs.TempSuffix} {
			if bad := o.store.fs.Remove(name); bad != nil && !errors.Is(bad, fs.ErrNotExist) {
				err = errors.Join(err, bad)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("remove the files of %s: %w", o.summary.Name, err)
	}
	return nil
}
