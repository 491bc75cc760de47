package state

// EvictSome moves the first unit from id on of a Directory out of memory, of state number, or the row if it is a value:
// for tests of packages above, which cannot wait for memory to be short.
func EvictSome(t Table, number int, id uint32) {
	t.(interface{ evictSome(number int, id uint32) }).evictSome(number, id)
}

func (d *directory) evictSome(number int, id uint32) { d.t.EvictSome(number, id) }
