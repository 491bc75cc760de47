// Package group finds where the alignment groups of a job stand, for each of its processes: at the lowest watermark that the
// others have told with their samples.
//
// Never here: who waits for a group; its processes decide that.
//
// Concurrency: pure functions.
package group
