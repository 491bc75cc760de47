// Package partition is the format of stored results: the names of partitions, their index, their blocks
// (docs/format/partition.md).
//
// Bytes in, values out, and back. Never here: directories, the life of files, credit, connections; shuffle/stored does
// that.
//
// Concurrency: values belong to their caller.
package partition
