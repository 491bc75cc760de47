package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluiceio/sluice/internal/vfs"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// DevStop ends a development cluster. dir may be empty for the detached one without a directory of its own.
func DevStop(ctx context.Context, n Node, dir string) (err error) {
	if dir == "" {
		if dir, err = recall(); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	f, err := readFile(dir)
	if err != nil {
		return err
	}
	if f == nil {
		return devFault(ops.ExitNotFound, "sluice dev stop --data-dir D, with the directory that sluice dev printed",
			fmt.Errorf("no cluster is in %s", dir))
	}
	running := 0
	for _, m := range f.Nodes {
		if m.alive() {
			running++
		}
	}
	if err := stopNodes(ctx, f); err != nil {
		return err
	}
	n.say("%d of %d nodes were running; all have ended", running, len(f.Nodes))
	return nil
}

// stopNodes ends the processes of a cluster, workers first, and takes away what was temporary.
func stopNodes(ctx context.Context, f *File) error {
	err := errors.Join(end(ctx, f.role(roleWorker), stopGrace), end(ctx, f.role(roleCoordinator), stopGrace))
	if err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	for _, n := range f.Nodes {
		n.PID = 0
	}
	if f.Temporary {
		if err := errors.Join(os.RemoveAll(f.DataDir), forget(f.DataDir)); err != nil {
			return devFault(ops.ExitOther, "", err)
		}
		return nil
	}
	if err := f.write(); err != nil {
		return err
	}
	return nil
}

// pointer is the file that names the directory of the newest detached cluster without one of its own. There is one per
// user and machine, and it is only a convenience.
func pointer() string {
	return filepath.Join(os.TempDir(), "sluice-dev-"+strconv.Itoa(os.Getuid())+".current")
}

func remember(dir string) error {
	if err := vfs.Publish(vfs.OS{}, pointer(), []byte(dir+"\n")); err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	return nil
}

func recall() (string, error) {
	data, err := os.ReadFile(pointer())
	if errors.Is(err, fs.ErrNotExist) {
		return "", devFault(ops.ExitNotFound, "sluice dev stop --data-dir D, with the directory that sluice dev printed",
			errors.New("no detached cluster is known"))
	}
	if err != nil {
		return "", devFault(ops.ExitOther, "", err)
	}
	return string(data[:max(0, len(data)-1)]), nil
}

// forget removes the pointer if it names dir.
func forget(dir string) error {
	known, err := recall()
	if err != nil || known != dir {
		return nil // nothing to forget
	}
	return os.Remove(pointer())
}
