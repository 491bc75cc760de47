// Package archive is the verbs of snapshots in directories: `savepoint export` brings one out of a cluster, `snapshot verify` reads
// what lies on a disk and asks no cluster.
//
// What a snapshot is, and when it is sound, is the business of snapshot/bundle and snapshot/audit; here it is asked for and shown. Never
// here: anything that changes a cluster.
package archive
