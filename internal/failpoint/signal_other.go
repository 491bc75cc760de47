//go:build !unix

package failpoint

import "errors"

func kill() error { return errors.ErrUnsupported }

func stop() error { return errors.ErrUnsupported }
