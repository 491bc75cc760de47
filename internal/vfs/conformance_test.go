package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConformance runs one suite against every implementation: what a test learns on Mem must hold on a disk.
func TestConformance(t *testing.T) {
	implementations := map[string]func(t *testing.T) (FS, string){
		"os":  func(t *testing.T) (FS, string) { return OS{}, t.TempDir() },
		"mem": func(*testing.T) (FS, string) { return NewMem(), "/" },
		"clone": func(t *testing.T) (FS, string) {
			m := NewMem()
			must(t, MakeDir(m, "deep/base"))
			return m.CrashClone(), "deep/base"
		},
		"faultless": func(*testing.T) (FS, string) {
			return WithFaults(NewMem(), func(Operation, string) Fault { return Fault{} }), "/"
		},
	}
	for name, implementation := range implementations {
		t.Run(name, func(t *testing.T) {
			for promise, test := range conformance() {
				t.Run(promise, func(t *testing.T) {
					fsys, base := implementation(t)
					test(t, fsys, base)
				})
			}
		})
	}
}

func conformance() map[string]func(t *testing.T, fsys FS, base string) {
	return map[string]func(t *testing.T, fsys FS, base string){
		"what is written is read":               testReadBack,
		"flags":                                 testFlags,
		"appending ignores the position":        testAppend,
		"truncate cuts, and grows with zeros":   testTruncate,
		"rename replaces":                       testRename,
		"rename of directories":                 testRenameDir,
		"remove":                                testRemove,
		"remove all":                            testRemoveAll,
		"an open file outlives its name":        testOutlives,
		"listings are sorted":                   testReadDir,
		"errors are recognisable":               testErrors,
		"a closed file refuses":                 testClosed,
		"a lock excludes until closed":          testLock,
		"publish replaces and leaves no trace":  testPublish,
		"a failed publish changes nothing":      testPublishFails,
		"directories are made with parents":     testMakeDir,
		"discard is idempotent":                 testDiscard,
		"position reads do not move the cursor": testReadAt,
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error %v; want %v", err, target)
	}
}

func put(t *testing.T, fsys FS, name, content string) {
	t.Helper()
	f, err := Create(fsys, name)
	must(t, err)
	_, err = io.WriteString(f, content)
	must(t, err)
	must(t, f.Close())
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	data, err := ReadFile(fsys, name)
	must(t, err)
	return string(data)
}

func names(t *testing.T, fsys FS, dir string) []string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	must(t, err)
	out := []string{}
	for _, e := range list {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		out = append(out, name)
	}
	return out
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func testReadBack(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	put(t, fsys, name, "hello")
	equal(t, content(t, fsys, name), "hello")
	info, err := fsys.Stat(name)
	must(t, err)
	equal(t, []any{info.Name(), info.Size(), info.IsDir(), info.Mode().Perm()}, []any{"f", int64(5), false, fs.FileMode(0o644)})
	f, err := Open(fsys, name)
	must(t, err)
	defer f.Close()
	info, err = f.Stat()
	must(t, err)
	equal(t, []any{info.Name(), info.Size(), f.Name()}, []any{"f", int64(5), name})
	n, err := f.Read(nil)
	equal(t, []any{n, err}, []any{0, nil})
}

func testReadAt(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	put(t, fsys, name, "0123456789")
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	buf := make([]byte, 4)
	n, err := f.ReadAt(buf, 3)
	must(t, err)
	equal(t, string(buf[:n]), "3456")
	n, err = f.ReadAt(buf, 8)
	want(t, err, io.EOF)
	equal(t, string(buf[:n]), "89")
	n, err = f.ReadAt(buf, 99)
	want(t, err, io.EOF)
	equal(t, n, 0)
	if _, err := f.ReadAt(buf, -1); err == nil {
		t.Error("negative offset accepted")
	}
	_, err = f.WriteAt([]byte("XY"), 12) // beyond the end: a hole of zeros
	must(t, err)
	if _, err := f.WriteAt([]byte("XY"), -1); err == nil {
		t.Error("negative offset accepted")
	}
	all, err := io.ReadAll(f)
	must(t, err)
	equal(t, string(all), "0123456789\x00\x00XY")
}

func testFlags(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	_, err := Open(fsys, name)
	want(t, err, fs.ErrNotExist)
	f, err := CreateNew(fsys, name)
	must(t, err)
	must(t, f.Close())
	_, err = CreateNew(fsys, name)
	want(t, err, fs.ErrExist)
	put(t, fsys, name, "long content")
	put(t, fsys, name, "short")
	equal(t, content(t, fsys, name), "short")

	f, err = Open(fsys, name)
	must(t, err)
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("write to a file opened for reading accepted")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("truncate of a file opened for reading accepted")
	}
	must(t, f.Close())
	f, err = fsys.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	if _, err := f.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Error("read from a file opened for writing accepted")
	}
	_, err = f.Write([]byte("S"))
	must(t, err)
	must(t, f.Close())
	equal(t, content(t, fsys, name), "Short")
}

func testAppend(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	for _, s := range []string{"ab", "cd"} {
		f, err := Append(fsys, name)
		must(t, err)
		_, err = io.WriteString(f, s)
		must(t, err)
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Error("WriteAt on an appending file accepted")
		}
		must(t, f.Close())
	}
	equal(t, content(t, fsys, name), "abcd")
}

func testTruncate(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	put(t, fsys, name, "abcdef")
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	must(t, f.Truncate(2))
	must(t, f.Truncate(4))
	if err := f.Truncate(-1); err == nil {
		t.Error("negative size accepted")
	}
	must(t, f.Close())
	equal(t, content(t, fsys, name), "ab\x00\x00")
}

func testRename(t *testing.T, fsys FS, base string) {
	a, b := path.Join(base, "a"), path.Join(base, "b")
	put(t, fsys, a, "new")
	put(t, fsys, b, "old")
	must(t, fsys.Rename(a, b))
	equal(t, names(t, fsys, base), []string{"b"})
	equal(t, content(t, fsys, b), "new")
	must(t, fsys.Rename(b, b))
	equal(t, content(t, fsys, b), "new")
	want(t, fsys.Rename(a, b), fs.ErrNotExist)
	want(t, fsys.Rename(b, path.Join(base, "none", "b")), fs.ErrNotExist)
}

func testRenameDir(t *testing.T, fsys FS, base string) {
	a, b, file := path.Join(base, "a"), path.Join(base, "b"), path.Join(base, "file")
	for _, d := range []string{a, b} {
		must(t, fsys.Mkdir(d, 0o755))
	}
	put(t, fsys, path.Join(a, "f"), "x")
	put(t, fsys, file, "y")
	want(t, fsys.Rename(a, b), fs.ErrExist)
	if err := fsys.Rename(a, path.Join(a, "below")); err == nil {
		t.Error("a directory moved below itself")
	}
	if err := fsys.Rename(file, b); err == nil {
		t.Error("a file replaced a directory")
	}
	if err := fsys.Rename(b, file); err == nil {
		t.Error("a directory replaced a file")
	}
	must(t, fsys.Remove(b))
	must(t, fsys.Rename(a, b))
	equal(t, names(t, fsys, base), []string{"b/", "file"})
	equal(t, content(t, fsys, path.Join(b, "f")), "x")
}

func testRemove(t *testing.T, fsys FS, base string) {
	dir := path.Join(base, "d")
	must(t, fsys.Mkdir(dir, 0o755))
	put(t, fsys, path.Join(dir, "f"), "x")
	if err := fsys.Remove(dir); err == nil {
		t.Error("a full directory was removed")
	}
	must(t, fsys.Remove(path.Join(dir, "f")))
	must(t, fsys.Remove(dir))
	want(t, fsys.Remove(dir), fs.ErrNotExist)
	equal(t, names(t, fsys, base), []string{})
}

func testRemoveAll(t *testing.T, fsys FS, base string) {
	dir := path.Join(base, "d")
	must(t, MakeDir(fsys, path.Join(dir, "e")))
	put(t, fsys, path.Join(dir, "e", "f"), "x")
	must(t, fsys.RemoveAll(dir))
	must(t, fsys.RemoveAll(dir))
	must(t, fsys.RemoveAll(path.Join(base, "none", "deeper")))
	equal(t, names(t, fsys, base), []string{})
}

func testOutlives(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	put(t, fsys, name, "old")
	f, err := Open(fsys, name)
	must(t, err)
	defer f.Close()
	put(t, fsys, name+"2", "new")
	must(t, fsys.Rename(name+"2", name))
	data, err := io.ReadAll(f)
	must(t, err)
	equal(t, string(data), "old")
	equal(t, content(t, fsys, name), "new")
}

func testReadDir(t *testing.T, fsys FS, base string) {
	for _, n := range []string{"c", "a"} {
		put(t, fsys, path.Join(base, n), n)
	}
	must(t, fsys.Mkdir(path.Join(base, "b"), 0o755))
	equal(t, names(t, fsys, base), []string{"a", "b/", "c"})
	list, err := fsys.ReadDir(base)
	must(t, err)
	info, err := list[0].Info()
	must(t, err)
	equal(t, info.Size(), int64(1))
}

func testErrors(t *testing.T, fsys FS, base string) {
	file, none := path.Join(base, "f"), path.Join(base, "none")
	put(t, fsys, file, "x")
	_, err := fsys.Stat(none)
	want(t, err, fs.ErrNotExist)
	_, err = fsys.ReadDir(none)
	want(t, err, fs.ErrNotExist)
	want(t, fsys.SyncDir(none), fs.ErrNotExist)
	want(t, fsys.Mkdir(path.Join(none, "d"), 0o755), fs.ErrNotExist)
	want(t, fsys.Mkdir(file, 0o755), fs.ErrExist)
	_, err = Create(fsys, path.Join(none, "f"))
	want(t, err, fs.ErrNotExist)
	for what, err := range map[string]error{
		"ReadDir of a file": func() error { _, err := fsys.ReadDir(file); return err }(),
		"SyncDir of a file": fsys.SyncDir(file),
		"a file as parent":  func() error { _, err := Create(fsys, path.Join(file, "x")); return err }(),
		"create over a dir": func() error { _, err := Create(fsys, base); return err }(),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	f, err := Open(fsys, base)
	must(t, err)
	if _, err := f.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("read of a directory: %v", err)
	}
	must(t, f.Close())
}

func testClosed(t *testing.T, fsys FS, base string) {
	f, err := Create(fsys, path.Join(base, "f"))
	must(t, err)
	must(t, f.Close())
	want(t, f.Close(), fs.ErrClosed)
	_, err = f.Write([]byte("x"))
	want(t, err, fs.ErrClosed)
	_, err = f.Read(make([]byte, 1))
	want(t, err, fs.ErrClosed)
	want(t, f.Sync(), fs.ErrClosed)
}

func testLock(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "lock")
	l, err := fsys.Lock(name)
	must(t, err)
	_, err = fsys.Lock(name)
	want(t, err, ErrLocked)
	must(t, l.Close())
	l, err = fsys.Lock(name)
	must(t, err)
	must(t, l.Close())
}

func testPublish(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	big := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	must(t, Publish(fsys, name, []byte("first")))
	put(t, fsys, name+TempSuffix, "left over by an earlier, longer attempt")
	must(t, PublishFunc(fsys, name, func(w io.Writer) error {
		_, err := w.Write(big)
		return err
	}))
	equal(t, names(t, fsys, base), []string{"f"})
	if content(t, fsys, name) != string(big) {
		t.Error("content differs")
	}
}

func testPublishFails(t *testing.T, fsys FS, base string) {
	name := path.Join(base, "f")
	must(t, Publish(fsys, name, []byte("first")))
	cause := errors.New("cause")
	want(t, PublishFunc(fsys, name, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of it")
		return errors.Join(err, cause)
	}), cause)
	equal(t, names(t, fsys, base), []string{"f"})
	equal(t, content(t, fsys, name), "first")
	want(t, Publish(fsys, path.Join(base, "none", "f"), nil), fs.ErrNotExist)
}

func testMakeDir(t *testing.T, fsys FS, base string) {
	dir := path.Join(base, "a", "b", "c")
	must(t, MakeDir(fsys, dir))
	must(t, MakeDir(fsys, dir))
	equal(t, names(t, fsys, path.Join(base, "a", "b")), []string{"c/"})
	put(t, fsys, path.Join(dir, "f"), "x")
	if err := MakeDir(fsys, path.Join(dir, "f")); err == nil {
		t.Error("a file passed for a directory")
	}
	if err := MakeDir(fsys, path.Join(dir, "f", "g")); err == nil {
		t.Error("a directory was made below a file")
	}
}

func testDiscard(t *testing.T, fsys FS, base string) {
	must(t, MakeDir(fsys, path.Join(base, "a", "b")))
	put(t, fsys, path.Join(base, "a", "b", "f"), "x")
	for range 2 {
		must(t, Discard(fsys, path.Join(base, "a")))
	}
	must(t, Discard(fsys, path.Join(base, "none", "deeper")))
	equal(t, names(t, fsys, base), []string{})
}
