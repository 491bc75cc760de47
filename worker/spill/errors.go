package spill

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Codes of failures (docs/errors.md has causes and fixes).
const (
	CodeSpace   = "E125" // the directory is full, read-only, or cannot be used
	CodeCorrupt = "E126" // what was read is not what was written
	CodeBudget  = "E127" // the operator's share of the memory is smaller than it can work with
)

// Error is a failure to spill, or to read what was spilled.
type Error struct {
	Code string
	Path string // of the file or directory; for CodeBudget the operator
	// Bytes asked for: what was to be written, or the least budget.
	Bytes int64
	// Fatal says that another attempt meets the same: a directory that is read-only, a budget that is too small.
	Fatal bool
	Err   error
}

func (e *Error) Error() string {
	switch e.Code {
	case CodeSpace:
		return fmt.Sprintf("spill %d bytes to %s: %v", e.Bytes, e.Path, e.Err)
	case CodeBudget:
		return fmt.Sprintf("%s needs %d bytes at least: %v", e.Path, e.Bytes, e.Err)
	}
	return fmt.Sprintf("read what was spilled to %s: %v", e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// noSpace is the failure to write bytes to path. A full disk may have room for the next attempt; a directory that is
// not there or may not be written to stays so.
func noSpace(path string, bytes int64, err error) *Error {
	fatal := errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR)
	return &Error{Code: CodeSpace, Path: path, Bytes: bytes, Fatal: fatal, Err: err}
}
