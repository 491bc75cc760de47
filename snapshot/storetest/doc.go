// Package storetest is the suite that every snapshot.Store passes: what the contract says about names that are written once, content
// that is cut short, readers that outlive a deletion, and writes of which nobody knows whether they happened.
//
// Never here: what one kind of store promises beyond the contract; crashes of a file system are tests of package fs.
package storetest
