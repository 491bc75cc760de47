package state

// EvictSome moves the first unit from id on out of memory, of state number, or the row if it is a value: for tests of
// packages above, which cannot wait for memory to be short.
func EvictSome[K comparable](d *Directory[K], number int, id uint32) { d.t.EvictSome(number, id) }
