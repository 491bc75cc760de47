// Package top is the first n records of a bounded input by an order, per key or of all.
//
// Per key it is an aggregation (package aggregate) whose accumulator is a heap of n records at most; of all it is a sort
// that drops what cannot be among the first n (package sort).
//
// Concurrency: everything belongs to the goroutine of one subtask; the functions of a Spec are shared by all subtasks of a
// process.
package top
