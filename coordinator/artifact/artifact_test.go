package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/vfs"
)

func digest(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:]))
}

const limit = 1 << 20

func openStore(t *testing.T, fsys vfs.FS) *Store {
	t.Helper()
	s, err := OpenStore(fsys, "/d/artifacts", limit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(s *Store, d Digest, size int64, data []byte) error {
	w, err := s.Create(d, size)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit()
}

func files(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestStoredArtifactIsReadBack(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	data := []byte("some binary")
	d := digest(data)
	if _, err := s.Stat(d); !errors.Is(err, ErrMissing) {
		t.Errorf("before: %v", err)
	}
	if _, err := s.Open(d); !errors.Is(err, ErrMissing) {
		t.Errorf("before: %v", err)
	}
	if err := put(s, d, int64(len(data)), data); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %q, %v", got, err)
	}
	if size, err := s.Stat(d); err != nil || size != int64(len(data)) {
		t.Errorf("stat %d, %v", size, err)
	}
	if all, err := s.List(); err != nil || len(all) != 1 || all[0] != d {
		t.Errorf("list %v, %v", all, err)
	}
	for range 2 { // removing twice is fine
		if err := s.Remove(d); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("list after the removal %v, %v", all, err)
	}
}

func TestWrongBytesLeaveNothing(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	data := []byte("some binary")
	d, size := digest(data), int64(len(data))
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"short", put(s, d, size, data[:3]), ErrCutOff},
		{"long", put(s, d, size, append(bytes.Clone(data), 'x')), ErrTooLarge},
		{"other", put(s, d, size, []byte("some bInary")), ErrDigest},
		{"nothing announced", put(s, d, 0, nil), ErrTooLarge},
		{"beyond the limit", put(s, d, limit+1, data), ErrTooLarge},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	if left := append(files(t, mem, "/d/artifacts"), files(t, mem, "/d/artifacts/incoming")...); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestCrashAndFaultsAtEveryStep fails each file operation of an upload in turn, in each way, and crashes after it. An
// upload that was acknowledged survives; one that was not leaves nothing or everything, and never a part.
func TestCrashAndFaultsAtEveryStep(t *testing.T) {
	data := bytes.Repeat([]byte("payload "), 1000)
	d := digest(data)
	for step := 0; ; step++ {
		hit := false
		for _, outcome := range []vfs.Outcome{vfs.NotDone, vfs.Done, vfs.Half} {
			mem := vfs.NewMem()
			openStore(t, mem)
			n := -1
			faulty := vfs.WithFaults(mem, func(op vfs.Operation, _ string) vfs.Fault {
				if n++; n == step {
					hit = true
					return vfs.Fault{Err: fmt.Errorf("%s fails", op), Outcome: outcome}
				}
				return vfs.Fault{}
			})
			s := &Store{fs: faulty, dir: "/d/artifacts", maxBytes: limit}
			err := put(s, d, int64(len(data)), data)

			after := mem.CrashClone()
			again := openStore(t, after)
			if left := files(t, after, "/d/artifacts/incoming"); len(left) != 0 {
				t.Fatalf("step %d: %v is left after the crash", step, left)
			}
			verify := again.Verify(d)
			switch {
			case err == nil && verify != nil:
				t.Fatalf("step %d, outcome %d: acknowledged, and after the crash: %v", step, outcome, verify)
			case verify != nil && !errors.Is(verify, ErrMissing):
				t.Fatalf("step %d, outcome %d: half an artifact: %v", step, outcome, verify)
			}
			// Without a crash: what is in the store is whole, and trying again works.
			s.fs = mem
			if _, stat := s.Stat(d); stat == nil {
				if err := s.Verify(d); err != nil {
					t.Fatalf("step %d, outcome %d: %v", step, outcome, err)
				}
			}
			if err := put(again, d, int64(len(data)), data); err != nil {
				t.Fatalf("step %d, outcome %d: the next try: %v", step, outcome, err)
			}
		}
		if !hit {
			if step < 5 {
				t.Fatalf("only %d steps: nothing was tested", step)
			}
			return
		}
	}
}

func TestDamagedArtifactIsRemoved(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	data := []byte("some binary")
	d := digest(data)
	if err := put(s, d, int64(len(data)), data); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(d); err != nil {
		t.Fatal(err)
	}
	f, err := mem.OpenFile(s.path(d), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0}, 3); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(d); !errors.Is(err, ErrDigest) {
		t.Errorf("verify: %v", err)
	}
	if _, err := s.Stat(d); !errors.Is(err, ErrMissing) {
		t.Errorf("the damaged file is still there: %v", err)
	}
}

func TestLockSerialisesOneDigestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, vfs.NewMem())
		unlock, err := s.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("locked twice: %v", err)
		}
		inside := 0
		g := run.NewGroup(t.Context(), "lock")
		for range 5 {
			g.Go("lock", func(ctx context.Context) error {
				unlock, err := s.Lock(ctx, "a")
				if err != nil {
					return err
				}
				inside++
				if inside != 1 {
					t.Errorf("%d inside", inside)
				}
				<-time.After(time.Second)
				inside--
				unlock()
				return nil
			})
		}
		unlock()
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	f.Add(strings.Repeat("a", 64))
	f.Add("../../../../../../../../../../../../../../../../../../../etc/passwd")
	f.Add(strings.Repeat("A", 64))
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDigest(s)
		if err != nil {
			return
		}
		if b, err := hex.DecodeString(string(d)); err != nil || len(b) != sha256.Size || strings.ContainsAny(s, "/.\\") || s != strings.ToLower(s) {
			t.Errorf("accepted %q", s)
		}
	})
}

func header(kind elf.Type, machine elf.Machine, abi elf.OSABI) []byte {
	b := make([]byte, 64)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION], b[elf.EI_OSABI] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1, byte(abi)
	binary.LittleEndian.PutUint16(b[16:], uint16(kind))
	binary.LittleEndian.PutUint16(b[18:], uint16(machine))
	binary.LittleEndian.PutUint32(b[20:], 1)
	binary.LittleEndian.PutUint16(b[52:], 64)
	binary.LittleEndian.PutUint16(b[54:], 56)
	binary.LittleEndian.PutUint16(b[58:], 64)
	return b
}

func TestPlatformsAreRecognised(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string // platform, or the end of the error
	}{
		{"linux amd64", header(elf.ET_EXEC, elf.EM_X86_64, elf.ELFOSABI_NONE), "linux/amd64"},
		{"linux arm64, position independent", header(elf.ET_DYN, elf.EM_AARCH64, elf.ELFOSABI_LINUX), "linux/arm64"},
		{"freebsd", header(elf.ET_EXEC, elf.EM_X86_64, elf.ELFOSABI_FREEBSD), "freebsd/amd64"},
		{"power", header(elf.ET_EXEC, elf.EM_PPC64, elf.ELFOSABI_NONE), "linux/ppc64le"},
		{"object file", header(elf.ET_REL, elf.EM_X86_64, elf.ELFOSABI_NONE), "ELF file of type ET_REL"},
		{"cut header", header(elf.ET_EXEC, elf.EM_X86_64, elf.ELFOSABI_NONE)[:40], "the ELF header is damaged"},
		{"mach-o", []byte("\xcf\xfa\xed\xfe and more"), "a macOS executable"},
		{"windows", []byte("MZ and more"), "a Windows executable"},
		{"script", []byte("#!/bin/sh"), "a script"},
		{"text", []byte("hello, world"), "not an ELF executable"},
		{"empty", nil, "too short"},
	} {
		p, err := Inspect(bytes.NewReader(c.data))
		got := p.String()
		if err != nil {
			got = err.Error()
			if !errors.Is(err, ErrNotELF) {
				t.Errorf("%s: %v is not ErrNotELF", c.name, err)
			}
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if p, err := Inspect(f); err != nil || p != (Platform{runtime.GOOS, runtime.GOARCH}) {
		t.Errorf("this test is for %s, %v", p, err)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add(header(elf.ET_EXEC, elf.EM_X86_64, elf.ELFOSABI_NONE))
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := Inspect(bytes.NewReader(data)); err == nil && (p.OS == "" || p.Arch == "") {
			t.Errorf("a platform without a name: %v", p)
		}
	})
}
