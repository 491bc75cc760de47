// Package jobid makes and reads the ids of jobs: NAME-N, where N grows with every job of a cluster.
//
// Pure. Never in here: who issues N (coordinator/state).
package jobid
