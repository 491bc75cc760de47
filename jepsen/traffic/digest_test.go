package traffic

import (
	"os"
	"path/filepath"
	"testing"
)

func TestADigestCountsCommittedRowsOnlyAndInAnyOrder(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(a, "part-0"):         "a\nb\n",
		filepath.Join(b, "part-0"):         "b\n",
		filepath.Join(b, "sub", "part-1"):  "a\n",
		filepath.Join(b, ".tmp", "part-2"): "c\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	da, err := DigestDir(a)
	if err != nil {
		t.Fatal(err)
	}
	db, err := DigestDir(b)
	if err != nil {
		t.Fatal(err)
	}
	if da != db || da.Count != 2 {
		t.Errorf("%+v and %+v", da, db)
	}
	if h := fnv1a([]byte("a")); h != 0xaf63dc4c8601ec8c {
		t.Errorf("FNV-1a of \"a\" is %x", h)
	}
}
