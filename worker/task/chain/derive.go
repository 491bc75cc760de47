package chain

import "github.com/sluiceio/sluice/worker/state"

// Derive makes t a table that the operator can make again from its others: it is maintained and closed as they are, and
// takes no part in checkpoints: its options have none.
func (rt *Runtime) Derive(t state.Table) { rt.derived = append(rt.derived, t) }
