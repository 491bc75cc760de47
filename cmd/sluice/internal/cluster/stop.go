package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

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
	if err := endNodes(ctx, f); err != nil {
		return err
	}
	if err := tidyAlone(ctx, f); err != nil {
		return err
	}
	return n.answer(map[string]int{"running": running, "nodes": len(f.Nodes)}, "%d of %d nodes were running; all have ended", running, len(f.Nodes))
}

// endNodes ends the processes of a cluster, workers first, so that coordinators see them leave.
func endNodes(ctx context.Context, f *File) error {
	err := errors.Join(end(ctx, f.role(roleWorker), stopGrace), end(ctx, f.role(roleCoordinator), stopGrace))
	if err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	return nil
}

// tidy notes that no node runs, or takes away what was temporary. The caller holds the lock.
func tidy(f *File) error {
	for _, n := range f.Nodes {
		n.PID = 0
	}
	if !f.Temporary {
		return f.write()
	}
	if err := errors.Join(os.RemoveAll(f.DataDir), forget(f.DataDir)); err != nil {
		return devFault(ops.ExitOther, "", err)
	}
	return nil
}

// tidyAlone is tidy for a stop. A supervisor that sees its nodes end tidies up itself, and holds the lock meanwhile.
func tidyAlone(ctx context.Context, f *File) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for {
		lock, err := vfs.OS{}.Lock(filepath.Join(f.DataDir, lockName))
		if err == nil {
			return errors.Join(tidy(f), lock.Close())
		}
		if errors.Is(err, fs.ErrNotExist) { // tidied up, directory and all
			return nil
		}
		if !errors.Is(err, vfs.ErrLocked) {
			return devFault(ops.ExitOther, "", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return devFault(ops.ExitTimeout, "end the sluice dev that started it", errors.New("all nodes have ended, but their supervisor goes on"))
		}
	}
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
