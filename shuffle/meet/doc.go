// Package meet decides which two ends form a channel: those of the same attempts in the same epochs, and no others.
//
// Invariant: once an end has sat down at a meeting, no older one ever does, on either side. So a task that was thought
// dead, or a deployment that comes late, finds its place taken and harms nobody.
//
// Never here: what an end is, how it is told, anything that blocks.
//
// Concurrency: a Meeting is guarded by its owner.
package meet
