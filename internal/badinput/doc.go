// Package badinput plays what may be wrong with a job through the public API: durations and times of no sense, states declared
// twice, keys and values that cannot be stored, functions that panic, fail or do not return. Each test says what the user is told:
// a code, the operator, the record, and at plan time the place in the source.
//
// It has no code of its own: tests of one package would be spread over those that refuse, and none would show that what they
// say reaches whoever wrote the job. Tables are in the order of docs/errors.md.
//
// Never here: clusters (internal/endtoend), and answers of jobs that are right (flow, internal/verify).
package badinput
