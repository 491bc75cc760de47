// Package artifact keeps job binaries on one coordinator's disk, addressed by the SHA-256 of their content.
//
// An artifact is there in full, durable and verified, or it is not there: bytes are hashed while they arrive in a file
// of their own, which is synced, renamed to the digest, and made durable in its directory. What was cut off is
// removed, at once or at the next start. The layout is described in docs/format/artifacts.md.
//
// Which artifacts the cluster refers to, where their copies are and when one may go is decided elsewhere, by committed
// facts; this package only obeys.
//
// Concurrency: a Store may be used from any goroutine. Lock serialises the work on one digest.
package artifact
