//go:build !linux

package cluster

import "errors"

// SmallDisk cannot be made here.
func SmallDisk(string, int64) (undo func() error, err error) {
	return nil, errors.New("small disks are made on Linux only")
}
