// Package plan turns a logical graph into a physical plan: chains with their parallelism, edges with their exchange
// kind and its reason, regions.
//
// Make is a pure function of the graph, the effective settings and the slots known. The leader, `./job plan` and the
// embedded driver call the same function, so they show and run the same plan.
//
// A plan is made in this order, each step from what the ones before have settled: mode and parallelism → the link of
// every input, direct call or exchange (link.go) → the exchanges that have to be BLOCKING so that no operator waits for
// itself (wait.go) → chains and edges → regions and slots → which results can be made again (again.go).
//
// Never in here: where subtasks run (coordinator/schedule), anything about attempts.
package plan
