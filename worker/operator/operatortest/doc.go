// Package operatortest is the conformance suite of operators: it drives one stage without a loop, item by item, and
// compares what it emits after each item with a model.
//
// Concurrency: a Harness belongs to the goroutine of its test.
package operatortest
