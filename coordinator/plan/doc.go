// Package plan turns a logical graph into a physical plan: chains with their parallelism, edges with their exchange
// kind and its reason, regions.
//
// Make is a pure function of the graph, the effective settings and the slots known. The leader, `./job plan` and the
// embedded driver call the same function, so they show and run the same plan.
//
// Never in here: where subtasks run (coordinator/schedule), anything about attempts.
package plan
