package slab

// Meter counts the memory of many parts. Parts hold a pointer to it; it costs an addition per allocation.
type Meter struct{ bytes int64 }

// Add counts n bytes more, or fewer.
func (m *Meter) Add(n int) { m.bytes += int64(n) }

// Bytes is the sum.
func (m *Meter) Bytes() int64 { return m.bytes }
