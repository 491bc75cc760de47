package law

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const binaryBytes = 25 << 20

// foreign must not be linked into a job: it makes every artifact larger, and its init functions run in user processes.
var foreign = []string{
	"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb", "go.etcd.io/bbolt", "github.com/boltdb/bolt",
	"github.com/spf13/cobra", "github.com/prometheus", "github.com/parquet-go",
	"cloud.google.com", "github.com/aws", "github.com/Azure", "gocloud.dev",
	"github.com/anishathalye/porcupine", "pgregory.net/rapid", "github.com/cockroachdb/datadriven",
	module + "/coordinator/api", module + "/coordinator/consensus", module + "/jepsen", module + "/cmd",
}

// roots are packages whose subpackages a job may link.
var roots = []string{module + "/coordinator", module + "/worker"}

const sample = "examples/wordcount"

func TestJobBinaryLinksNoServer(t *testing.T) {
	tr := house(t)
	requireDir(t, tr, sample)
	n := 0
	decode(t, goCommand(t, tr.root, "list", "-deps", "-json=ImportPath,Standard", "./"+sample), func(p listed) {
		n++
		for _, r := range roots {
			if p.ImportPath == r {
				t.Errorf("%s links %s", sample, r)
			}
		}
		if prefixed(foreign, p.ImportPath) || p.ImportPath == "testing" {
			t.Errorf("%s links %s", sample, p.ImportPath)
		}
	})
	if n < 20 {
		t.Errorf("only %d packages listed", n)
	}
}

func TestJobBinaryIsSmall(t *testing.T) {
	tr := house(t)
	requireDir(t, tr, sample)
	out := filepath.Join(t.TempDir(), "job")
	goCommand(t, tr.root, "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./"+sample)
	info, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, stripped: %.1f MiB", sample, float64(info.Size())/(1<<20))
	if info.Size() > binaryBytes {
		t.Errorf("%s is %d bytes; %d at most", sample, info.Size(), binaryBytes)
	}
}

// TestAgentLinksNoTaskRuntime looks at what is linked, third-party packages included.
func TestAgentLinksNoTaskRuntime(t *testing.T) {
	tr := house(t)
	for _, c := range []struct{ from, to string }{
		{"worker", module + "/worker/task"}, {"worker", module + "/worker/state"}, {"worker", module + "/worker/operator"},
		{"worker", "github.com/hashicorp/raft"}, {"worker", module + "/coordinator"}, {"worker", module + "/flow"},
		{"coordinator", module + "/worker"}, {"coordinator", module + "/shuffle"}, {"coordinator", module + "/connector"},
	} {
		if tr.find(c.from) == nil {
			t.Logf("%s does not exist yet", c.from)
			continue
		}
		for dep := range strings.FieldsSeq(string(goCommand(t, tr.root, "list", "-deps", "./"+c.from))) {
			if dep == c.to || c.to != module+"/flow" && strings.HasPrefix(dep, c.to+"/") {
				t.Errorf("%s links %s", c.from, dep)
			}
		}
	}
}

func requireDir(t *testing.T, tr *tree, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(tr.root, filepath.FromSlash(dir))); os.IsNotExist(err) {
		t.Skipf("%s does not exist yet", dir)
	}
}
