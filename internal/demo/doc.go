// Command demo shows in under a minute what the project is for, with the same commands that a user types.
//
// It starts three coordinators and three workers on loopback, submits a job over real flight records, kills the Raft
// leader with kill -9 in the middle, shows that no task restarted, and compares the answer with an independent one.
// It leaves nothing behind: no process, no file.
package main
