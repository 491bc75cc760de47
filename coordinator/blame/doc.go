// Package blame says where the event time of a job stands, and finds who holds it back.
//
// A watermark is a minimum, so somebody holds it: from the end of the job it leads over the input with the lowest watermark,
// and the subtask whose channel holds that input, back to a split of a source, an operator that has not done yet what was
// asked of it, or a subtask that does not run. Every step compares what two subtasks have told at different moments, so an
// answer is a diagnosis and no fact: nothing is decided by it.
//
// Never here: how an answer looks.
//
// Concurrency: pure functions.
package blame
