// Package placement chooses workers for slots: where the subtasks of a slot ran before, where their stored inputs lie,
// where there is most room.
//
// It knows slots, workers and bytes, and neither jobs nor facts; whether a region may have slots at all is decided in
// coordinator/schedule, and whether the workers have them is checked again in coordinator/state.
//
// Concurrency: pure functions.
package placement
