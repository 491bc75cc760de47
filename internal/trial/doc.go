// Command trial is a job binary of jobs that are hard, or wrong on purpose: diamonds and self-joins, a key with more rows
// than memory, more keys than memory, records of any size, a partitioner that misses, an exchange that never ends. internal/endtoend and
// internal/verify run it, embedded and on clusters, and know the answers.
//
// Every record is a function of its number, so that an answer can be computed without the engine.
package main
