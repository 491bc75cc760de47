// Package clustertest runs whole clusters of coordinators inside one test: in memory and fake time (inside a
// testing/synctest bubble), or on real disks and loopback. Both have the same handle, so a test says what happens and not
// where.
//
// It also has workers that speak the session protocol and pretend to run jobs. It is linked into tests only.
//
// Concurrency: a Cluster and its nodes belong to the test's goroutine unless a method says otherwise.
package clustertest
