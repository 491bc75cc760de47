// Package top is the first n records of a bounded input by an order, per key or of all.
//
// Concurrency: everything belongs to the goroutine of one subtask.
package top
