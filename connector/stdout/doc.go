// Package stdout is a sink that prints one line per record, for embedded runs and demonstrations.
//
// Subtasks of one process never mix their lines; a line appears when its writer is flushed, which the engine does several
// times a second. A record that is processed again is printed again.
package stdout
