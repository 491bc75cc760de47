package workdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
)

func TestFilesOfARunAreFilesLikeOthers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := vfs.Publish(FS{}, name, []byte("contents")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "contents" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := vfs.Open(FS{}, name+"-missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
