// Package record is the form of the small files in a worker's data directory: one line that says kind and version, one
// line of JSON, one line with the checksum of both (docs/format/workerdir.md).
//
// What the JSON means belongs to whoever writes the kind. Files are published and read through internal/vfs by the
// caller. Everything here is a pure function.
package record
