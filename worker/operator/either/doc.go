// Package either makes operators with two inputs of those with one: the records of both are told apart by the value that
// carries them.
//
// What lives here: the carrying value and the two stages of such an operator. What never does: what an operator does with
// its records, keys or time.
//
// Both stages hand their records to one Push, on the goroutine of their subtask. So state is shared by the two inputs
// without more ado, and the operator sees one watermark: the lower one of its inputs.
package either
