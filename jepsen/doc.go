// Package jepsen torments real clusters and judges what they did.
//
// It is a black box: it starts the processes of the one binary, speaks to them as any client does, injects faults
// from outside and compares the visible results with an independent oracle. It imports wire contracts and leaves,
// never the coordinator, the worker or the data plane, so that it cannot share their mistakes.
//
//	cluster    starts, kills, pauses and counts the processes of a cluster
//	history    one JSON-lines file of every client call and every fault, in order
//	nemesis    seeded schedules of faults
//	model      what a cluster may do, for comparison with what it did
//	scenario   whole experiments: workload × faults × verdict
//
// An outcome that is unknown is not a pass, and a scenario reports how many of its faults really took effect.
package jepsen
