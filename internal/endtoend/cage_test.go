package endtoend

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// cage lets processes see one directory as a small file system of their own: nothing outside is touched.
type cage struct {
	// dir inside the cluster's directory that is small; it is made.
	dir string
	// mount options: "size=64m", "ro".
	options string
}

// script mounts, then becomes the program. It is run in user and mount namespaces of its own.
const script = `set -e; mkdir -p "$1"; mount -t tmpfs -o "$2" none "$1"; shift 2; exec "$@"`

// wrap is the command line that runs the program in the cage, for directories below dir.
func (c *cage) wrap(t *testing.T, dir, name string, args []string) (string, []string) {
	t.Helper()
	requireCages(t)
	return "unshare", append([]string{"--map-root-user", "--mount", "sh", "-c", script, "sh", filepath.Join(dir, c.dir), c.options, name}, args...)
}

// inside runs a shell script as a process of the cage that pid lives in.
func inside(t *testing.T, pid int, script string, args ...string) answer {
	t.Helper()
	return command(t, nil, "nsenter", append([]string{"--target", strconv.Itoa(pid), "--user", "--mount", "--preserve-credentials", "sh", "-c", script, "sh"}, args...)...)
}

// requireCages skips a test where namespaces cannot be made: other systems, and containers that forbid it.
func requireCages(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("%s has no mount namespaces", runtime.GOOS)
	}
	out, err := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", t.TempDir(), "size=1m", "true").CombinedOutput()
	if err != nil {
		t.Skipf("no mount namespace: %v %s", err, strings.TrimSpace(string(out)))
	}
}
