package ops

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/sluiceio/sluice/internal/vfs"
)

// RowDigest identifies a multiset of rows whatever their order and their distribution over files: how many there are, and the
// sum (modulo 2^64) and the exclusive or of their hashes. A row is a line without its line break; its hash is FNV-1a 64
// of its bytes (offset cbf29ce484222325, prime 100000001b3).
type RowDigest struct {
	Count    uint64
	Sum, Xor uint64
}

// Add counts one row.
func (d *RowDigest) Add(row []byte) {
	h := uint64(0xcbf29ce484222325)
	for _, c := range row {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	d.Count++
	d.Sum += h
	d.Xor ^= h
}

func (d RowDigest) String() string { return fmt.Sprintf("%d %016x %016x", d.Count, d.Sum, d.Xor) }

// Digest shows the digest of the committed rows below a directory: every line of every file that is not in progress.
func Digest(s *Session, dir string) error {
	d, err := DigestDir(dir)
	if err != nil {
		return err
	}
	value := struct {
		Count uint64 `json:"count"`
		Sum   string `json:"sum"`
		Xor   string `json:"xor"`
	}{d.Count, fmt.Sprintf("%016x", d.Sum), fmt.Sprintf("%016x", d.Xor)}
	return s.printValue(value, func(w *tabwriter.Writer) { row(w, d) })
}

// DigestDir reads a directory. Names that begin with a dot, or end with the suffix of files that are being written, are
// output in progress, files and directories alike.
func DigestDir(dir string) (RowDigest, error) {
	var d RowDigest
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return d, &Fault{Exit: ExitNotFound, Code: CodeLocalFile, Err: err, Where: dir}
	}
	if err != nil {
		return d, localFault(err)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && inProgress(e.Name()) && e.IsDir():
			return fs.SkipDir
		case path != dir && inProgress(e.Name()) || !e.Type().IsRegular():
			return nil
		}
		return d.addFile(path)
	})
	if err != nil {
		return d, localFault(fmt.Errorf("digest %s: %w", dir, err))
	}
	return d, nil
}

func inProgress(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, vfs.TempSuffix)
}

func (d *RowDigest) addFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	r := bufio.NewReaderSize(f, 256<<10)
	var long []byte // of a line that did not fit into the reader's buffer
	for {
		part, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", path, err)
		}
		ended := err == nil
		if len(long) > 0 {
			long = append(long, part...)
			part = long
		}
		if ended {
			d.Add(part[:len(part)-1])
		} else if len(part) > 0 {
			d.Add(part) // the last line need not end with a break
		}
		if !ended {
			return nil
		}
		long = long[:0]
	}
}
