// Package fs keeps objects as files of a directory, local or shared, through internal/vfs.
//
// The path of an object is its name below the directory. It is written beside under a name that nobody reads, synced,
// renamed, and the directory is synced: a file with the name of an object is that object, whole. What a crash leaves
// beside is removed by the owner of the directory, at Open.
//
// Never here: which objects are needed, copies in other stores (peer), what objects contain.
//
// Concurrency: a Store may be used from any goroutine, and several processes may share a directory as long as each
// writes names of its own. Writers of one name in one process go one after the other. A Draft belongs to one goroutine.
package fs
