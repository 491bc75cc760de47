package batch

// Holder marks an operator that holds watermarks and idleness back: behind it there is one watermark, MaxTime, when it has
// emitted everything. When a record is emitted depends on memory, its event time must not: so nothing may be promised
// about times before.
type Holder struct{}

// HoldsWatermarks is the mark.
func (Holder) HoldsWatermarks() {}
