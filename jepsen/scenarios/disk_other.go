//go:build !linux

package scenarios

import "errors"

func smallDisk(string, int64) (undo func() error, err error) {
	return nil, errors.New("small disks are made on Linux only")
}
