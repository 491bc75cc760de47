// Package overflow holds what keyed state has to move out of memory: records in Badger, and parts of snapshots in files.
//
// A Store is one Badger of a task process. It is opened when the first record is written, and its directory is emptied
// before, and again at the end: nothing in it is ever read by another process. Each table has an Area of the Store, with
// keys of its own. Records are written in batches, which are readable at once; reads share a transaction.
//
// Badger is tuned small (docs/design/state.md): small memtables, no caches beside the page cache, no fsync, one version.
// Values above 96 KiB are split, so that the value log stays empty.
//
// The form of keys and records is docs/format/overflow.md; the records themselves are opaque here.
//
// Never here: which units leave, and what they mean (worker/state).
//
// Concurrency: a Store may be used by any goroutine. An Area and a File belong to the goroutine of one subtask. Nothing
// is started but Badger itself.
package overflow
