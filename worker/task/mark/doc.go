// Package mark is the arithmetic of watermarks: how those of several inputs become one.
//
// Pure. Never here: what makes watermarks (sources) and what they do (operators).
//
// Concurrency: a Merger belongs to the goroutine of its subtask.
package mark
