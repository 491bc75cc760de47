// Package graph knows the logical graph: whether it is well formed, its fingerprint, its text and DOT form, and which
// subtasks an edge joins.
//
// Pure: functions of protobuf messages, without clock, randomness or I/O. The graph itself is jobpb.Graph, written by
// the user's build function through package flow.
package graph
