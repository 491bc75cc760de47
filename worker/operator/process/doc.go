// Package process is the mechanism behind operators that users write themselves: what a processor declares in Open, the
// context of one call, and the stages that drive it.
//
// Package flow defines its user-facing types over those of this package (flow.Ctx is a process.KeyCtx), so that the
// documentation stands there and the conversion is free.
//
// Open runs in two ways: described at plan time, where only declarations are recorded, and for real when a subtask
// starts. A described Setup has no runtime; its handles are nil and must not be used.
//
// Never here: the public API (flow), window logic (worker/operator/window).
//
// Concurrency: everything belongs to the goroutine of one subtask.
package process
