//go:build unix

package workdir

import (
	"io/fs"
	"os"
	"syscall"
)

// mine reports whether this user owns what info describes: in a directory that is open to all, names prove nothing.
func mine(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
