// Package law holds the laws of the house as tests: which package may import which and why, where clocks, goroutines,
// connections and renames are allowed, how large things may become, and that documents and code name the same things.
//
// A law is a test of the whole tree, table-driven, and says its reason in the failure. Somebody who has to break one
// changes the table here, in the same commit, with the new reason; there is no other way to silence a law. A law about
// a directory that does not exist yet is skipped and says so.
//
// Nothing else lives here, and nothing imports this package.
package law
