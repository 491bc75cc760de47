package ops

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRowHashIsFNV1a64(t *testing.T) {
	var d RowDigest
	d.Add([]byte("a"))
	if d.String() != "1 af63dc4c8601ec8c af63dc4c8601ec8c" {
		t.Errorf("digest of the row a: %v", d)
	}
	d.Add(nil)
	a, empty := uint64(0xaf63dc4c8601ec8c), uint64(0xcbf29ce484222325)
	if want := fmt.Sprintf("2 %016x %016x", a+empty, a^empty); d.String() != want {
		t.Errorf("got %v, want %s", d, want)
	}
}

func TestDigestIsOfTheRowsNotOfTheFiles(t *testing.T) {
	long := strings.Repeat("long", 300_000)
	write := func(files map[string]string) string {
		dir := t.TempDir()
		for name, content := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one := write(map[string]string{"all": "a\nb\n\n" + long + "\nb\n"})
	other := write(map[string]string{
		"part-2": "b\n\nb", "sub/deep/part-1": "a\n" + long, "empty": "",
		".tmp/part-3": "in progress\n", "sub/.hidden": "hidden\n", "part-4.tmp": "in progress\n", "d.tmp/x": "in progress\n",
	})
	var digests []RowDigest
	for _, dir := range []string{one, other} {
		d, err := DigestDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
	}
	if digests[0] != digests[1] || digests[0].Count != 5 {
		t.Errorf("%v and %v", digests[0], digests[1])
	}
	if d, err := DigestDir(write(map[string]string{"x": "a\nb\n\n" + long + "\n"})); err != nil || d == digests[0] {
		t.Errorf("a missing row was not seen: %v", err)
	}
	if d, err := DigestDir(write(map[string]string{"x": "a\r\n"})); err != nil || d.String() == "1 af63dc4c8601ec8c af63dc4c8601ec8c" {
		t.Errorf("a carriage return is a byte of the row: %v %v", d, err)
	}
}

func TestDigestOfWhatIsNoDirectory(t *testing.T) {
	r := newRig(t, nil)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantExit(t, Digest(r.Session, file), ExitOther, CodeLocalFile)
	wantExit(t, Digest(r.Session, file+"none"), ExitNotFound, CodeLocalFile)
	r.Format = JSON
	if err := Digest(r.Session, filepath.Dir(file)); err != nil || r.out.String() != "{\n  \"count\": 0,\n  \"sum\": \"0000000000000000\",\n  \"xor\": \"0000000000000000\"\n}\n" {
		t.Errorf("%v: %s", err, r.out.String())
	}
	r.out.Reset()
	r.Format = Table
	if err := Digest(r.Session, filepath.Dir(file)); err != nil || r.out.String() != "0 0000000000000000 0000000000000000\n" {
		t.Errorf("%v: %q", err, r.out.String())
	}
}
