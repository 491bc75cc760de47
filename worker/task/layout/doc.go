// Package layout is a plan as wiring needs it: checked against the graph that this binary has built, with the edges by
// input, the consumers of every operator, the ranges of channels and the key groups of subtasks.
//
// Pure. Never here: the typed parts of operators (package task), where subtasks run.
//
// Concurrency: a Layout is immutable.
package layout
