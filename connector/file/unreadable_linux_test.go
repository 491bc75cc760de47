package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceio/sluice/connector"
)

// asNobody runs f on a thread that has no rights over the files of others. Root could read everything.
func asNobody(t *testing.T, f func()) {
	const nobody = 65534
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setfsuid(0) // it cannot fail, nor would it say so
	f()
}

func TestWhatCannotBeReadFailsTheJobAtOnceAndIsNamed(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	inside := write(t, closed, "x.txt", "one\n")
	secret := write(t, dir, "secret.txt", "two\n")
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, secret: 0, closed: 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) }) // so that it can be removed
	asNobody(t, func() {
		for _, input := range []string{closed, dir, inside} {
			if _, err := discover(t.Context(), Lines(input)); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), closed) || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", input, err)
			}
		}
		src := Lines(secret)
		splits, err := discover(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(t.Context(), src, splits, 0); err == nil || !connector.IsFatal(err) || !strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", secret, err)
		}
	})
}
