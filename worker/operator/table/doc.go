// Package table is a hash table from keys to values of one subtask: open addressing, keys and values in line, no pointer
// that the table itself adds. Entries are added and changed, never deleted one by one; a table is cleared as a whole.
//
// It uses the routing hash of the record, so that a key is hashed once. Key groups are chosen by the highest bits of the
// hash and slots by the lowest, so that a subtask's share of the keys spreads over the whole table.
//
// Never here: what the values mean, and anything that survives the attempt.
//
// Concurrency: a table belongs to the goroutine of its subtask.
package table
