// Package aggregate is the aggregation of a bounded keyed input: one result per key, when the input has ended. Distinct
// is its special case that keeps nothing but the key; package top builds on it as well.
//
// It is a hash aggregation. Keys lie in partitions by hash; as long as memory lasts each new key gets a row. When it does
// not, the partition of the next new key is closed: keys that have a row keep it and go on in memory, whatever else comes
// to the partition is written down as it came, and aggregated after the end of the input with all of the memory, the same
// way, by other bits of the hash. Accumulators that grow (lists, heaps) may exceed the memory without a new key: then the
// partition that holds most is evicted, its accumulators are written down, too, and the records that follow are added to
// them later, in their order. So no function is needed that merges accumulators, and Add sees the records of a key in the
// order of their arrival.
//
// Sort aggregation takes over where hashing does not help: if a partition is as large as the one that it came from, or too many levels
// deep. Records are sorted by the hash of their key, and one accumulator at a time is in memory. An input that is sorted
// already gains nothing from it: it is hashed in one pass like any other.
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of a Fold are shared by all subtasks of a
// process.
package aggregate
