// Package recordfile is the file format of the coordinators' state (docs/format/raft-snapshot.md): magic, version, then records, each
// with its length and checksum, from a header to a trailer that seals them.
//
// A reader trusts nothing: what is not exactly such a file is an error. Never here: what the records mean (coordinator/state).
package recordfile
