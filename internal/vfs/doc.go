// Package vfs is the file system that durable parts of the project write through: the operating system's, or an
// in-memory twin that forgets what was not synced.
//
// What a program may rely on after a crash is the contract here, and it is less than most machines give:
//
//   - the bytes of a file are durable once Sync of that file has returned; before that any of them may be missing;
//   - a name (a created, renamed or removed entry) is durable once SyncDir of its directory has returned, and that
//     directory's own name once its parent was synced;
//   - a rename is atomic: after a crash the name points to the old file or to the new one, never to a mixture.
//
// Publish follows from these three: write, sync, rename, sync the directory. Everything that must not be seen half
// done is published; MakeDir and Discard are the durable forms of mkdir and remove.
//
// Mem keeps two versions of everything, the one that processes see and the one that a crash leaves, so that
// CrashClone between any two steps of an algorithm shows what recovery would find. WithFaults makes chosen operations
// fail, not done, half done, or done and yet reported as failed.
//
// Neither paths nor contents are interpreted; formats belong to the packages that own them. Paths are slash-separated
// and are not confined to a directory: callers join them from their own names, never from a client's.
//
// Concurrency: an FS may be used from any goroutine. A File follows os.File: ReadAt and WriteAt may run concurrently,
// Read, Write and Close belong to one owner.
package vfs
