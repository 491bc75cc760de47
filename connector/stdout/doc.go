// Package stdout is a sink that prints one line per record, for embedded runs and demonstrations.
//
// Subtasks of one process take turns line by line; a line appears when the writer is flushed, at the latest at the
// end. A record that is processed again is printed again.
package stdout
