// Package localfile is what connectors of local files have in common: they find their input by one kind of pattern, and
// refuse a file that is no longer the one that was found.
//
// Never here: formats, splits, and writing.
//
// Concurrency: functions and values only.
package localfile
