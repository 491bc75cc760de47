//go:build !unix

package pipe

import (
	"errors"
	"net"
	"os"
)

// Descriptors cannot be passed here: nodes run on unix systems; jobs still run embedded.

const rightsSpace = 0

func rights(int) []byte { return nil }

func received([]byte, int) ([]*os.File, error) { return nil, errors.ErrUnsupported }

func socketPair() (*net.UnixConn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func keepFromChildren(int) {}
