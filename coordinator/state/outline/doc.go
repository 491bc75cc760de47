// Package outline is the plan of a job with what the facts look up in it all the time: where subtasks, slots, and writers are.
//
// It is made once per plan and never changes. Never here: the state of anything (coordinator/state).
package outline
