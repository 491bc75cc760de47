package vfs

import "errors"

// Causes that the standard library does not name portably. Callers match fs.ErrNotExist, fs.ErrExist and ErrLocked;
// these are for people.
var (
	errNotDir   = errors.New("not a directory")
	errIsDir    = errors.New("is a directory")
	errNotEmpty = errors.New("directory not empty")
	errReadOnly = errors.New("file not open for writing")
	errNoRead   = errors.New("file not open for reading")
	errAppend   = errors.New("WriteAt on a file opened for appending")
	errNegative = errors.New("negative offset or size")
	errInside   = errors.New("a directory cannot move below itself")
)
