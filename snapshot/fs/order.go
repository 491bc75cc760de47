package fs

import (
	iofs "io/fs"
	"slices"
	"strings"
)

// sortAsNames puts a directory in the order of the names below it: a directory is followed by a slash there.
func sortAsNames(list []iofs.DirEntry) {
	key := func(e iofs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(list, func(a, b iofs.DirEntry) int { return strings.Compare(key(a), key(b)) })
}
