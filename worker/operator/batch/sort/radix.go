package sort

import "slices"

// fewItems is what is sorted faster by comparing.
const fewItems = 64

// radix sorts by prefix and keeps the order of those that are equal. spare is as long as items at least.
//
// It goes over the items once per byte, from the last byte to the first, and leaves out those that are the same in all of
// them: small numbers and numbers of one magnitude need few. (Comparing costs about 5 ns × log2 of their number.)
func radix(items, spare []item) {
	if len(items) < fewItems {
		insertion(items)
		return
	}
	var differs, first uint64
	first = items[0].prefix
	for i := range items {
		differs |= items[i].prefix ^ first
	}
	from, to := items, spare[:len(items)]
	for shift := uint(0); shift < 64; shift += 8 {
		if differs>>shift&0xff == 0 {
			continue
		}
		var next [256]int
		for i := range from {
			next[byte(from[i].prefix>>shift)]++
		}
		sum := 0
		for d := range next {
			next[d], sum = sum, sum+next[d]
		}
		for i := range from {
			d := byte(from[i].prefix >> shift)
			to[next[d]] = from[i]
			next[d]++
		}
		from, to = to, from
	}
	if &from[0] != &items[0] {
		copy(items, from)
	}
}

// insertion sorts a few items, and leaves more to the library.
func insertion(items []item) {
	if len(items) > 16 {
		slices.SortStableFunc(items, func(a, b item) int {
			switch {
			case a.prefix < b.prefix:
				return -1
			case a.prefix > b.prefix:
				return 1
			}
			return 0
		})
		return
	}
	for i := 1; i < len(items); i++ {
		x := items[i]
		j := i
		for ; j > 0 && items[j-1].prefix > x.prefix; j-- {
			items[j] = items[j-1]
		}
		items[j] = x
	}
}
