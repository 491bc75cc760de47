package setting

import "slices"

// Suggest is the setting that name was probably meant to be; empty if none is near.
func Suggest(name string) string { return Closest(name, names()) }

// Closest is the candidate that name was probably meant to be: fewest edits, at most a third of its length. Empty if
// none is that near.
func Closest(name string, candidates []string) string {
	best, distance := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if d := edits([]rune(name), []rune(c)); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours that make b from a (optimal string
// alignment).
func edits(a, b []rune) int {
	before, last, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			cur[j] = slices.Min([]int{last[j] + 1, cur[j-1] + 1, replace})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, last, cur = last, cur, before
	}
	return last[len(b)]
}
