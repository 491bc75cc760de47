//go:build unix

package spill

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/internal/vfs"
)

// spiller is the directory in which this program, as a child of a test, spills until it is killed.
const spiller = "SLUICE_TEST_SPILLER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(spiller); dir != "" {
		spillUntilKilled(dir)
	}
	os.Exit(m.Run())
}

func spillUntilKilled(dir string) {
	t := &testing.B{}
	area, err := NewArea(Config{FS: vfs.OS{}, Dir: dir, Compression: S2})
	if err != nil {
		panic(err)
	}
	var n, m int64
	s := area.NewSpace(NewBudget(0), Counts{Bytes: &n, Records: &m}, maxBlock)
	w := NewWriter(s.NewFile(), codecOf(t))
	for i := int64(0); ; i++ {
		if err := w.Add(&rec{N: i, Text: strings.Repeat(fmt.Sprint(i), 10)}, 0); err != nil {
			panic(err)
		}
		if i == 200_000 {
			fmt.Println("spilled", n)
		}
	}
}

func TestAKilledProcessLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spill")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), spiller+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "spilled ") || line == "spilled 0\n" {
		t.Errorf("the child said %q, %v", line, err)
	}
	fds := filepath.Join("/proc", fmt.Sprint(cmd.Process.Pid), "fd")
	if names, err := os.ReadDir(fds); err == nil && !holds(fds, names, dir) {
		t.Error("the child has no spill file open")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the killed process left %v, %v", names, err)
	}
}

// holds reports that one of the descriptors is of a file that was in dir.
func holds(fds string, names []os.DirEntry, dir string) bool {
	for _, n := range names {
		if to, err := os.Readlink(filepath.Join(fds, n.Name())); err == nil && strings.HasPrefix(to, dir) && strings.HasSuffix(to, "(deleted)") {
			return true
		}
	}
	return false
}
