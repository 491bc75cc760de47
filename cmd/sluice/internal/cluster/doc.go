// Package cluster is what the verbs do that run nodes: a coordinator, a worker, and a development cluster of both on
// this machine, one process per node.
//
// A development cluster consists of this same binary, started as coordinators and workers that bind loopback only. Its
// layout stands in DATA_DIR/cluster.json (see File), by which other processes find and stop it. In the foreground this
// package supervises the nodes and ends them in order, workers first; detached, it leaves them to themselves.
//
// What never lives here: flags (package main), anything that a client does over the API (package ops), and any code of
// a node itself, which is in packages coordinator and worker.
//
// Concurrency: functions block until what they started has ended or was handed over; goroutines belong to groups of
// internal/run that are waited for.
package cluster
