//go:build !(linux || darwin || freebsd)

package vfs

import (
	"errors"
	"os"
)

// lockFile refuses: nodes run on unix systems, and a lock that does not exclude is worse than none.
func lockFile(*os.File) error { return errors.ErrUnsupported }
