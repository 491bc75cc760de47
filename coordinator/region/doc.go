// Package region finds the regions of a plan: sets of subtasks that are scheduled and restarted together, because
// records flow between them while they are produced.
//
// Pure: the same chains and edges give the same regions in the same order.
package region
