package spawn

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

var errLocked = errors.New("locked by a running process")

// leftoverPause is the pause between two looks at a lock, leftoverLimit the time for a killed process to be gone.
const (
	leftoverPause = 5 * time.Millisecond
	leftoverLimit = 10 * time.Second
)

// EndLeftover makes sure that nothing runs in the directory of a process that an older agent has started. It kills only
// what it can prove to be that process: same id, same start time, same start of the machine. A directory that stays
// locked by something else is an error.
func EndLeftover(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, leftoverLimit)
	defer cancel()
	ticker := time.NewTicker(leftoverPause)
	defer ticker.Stop()
	for {
		r, readErr := ReadRecord(dir) // none: its agent died before it could write one, and the process with it
		if readErr == nil {
			if err := r.end(dir); err != nil {
				return fmt.Errorf("end the process in %s: %w", dir, err)
			}
		}
		lock, err := lockFile(filepath.Join(dir, LockName))
		if err == nil {
			return lock.Close()
		}
		if !errors.Is(err, errLocked) {
			return fmt.Errorf("end the process in %s: %w", dir, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is held by a process that this worker cannot identify or kill; end it by hand: %w",
				dir, errors.Join(context.Cause(ctx), readErr))
		}
	}
}

// end kills the recorded process and what it started, as far as they can be identified.
func (r Record) end(dir string) error {
	alive, err := r.alive()
	if err != nil {
		return err
	}
	if alive {
		// Between the look and the signal the id could only change hands if the process ended and the system handed
		// out every other id first.
		killGroup(r.Pid)
		return nil
	}
	return killStragglers(r.Pid, dir)
}
