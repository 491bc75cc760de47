// Package ordered holds a map whose old versions stay as they are, in the order of its keys.
//
// Concurrency: a Map never changes, so any number of goroutines may look at it. Values are shared between versions.
//
// Never in here: what is in the maps.
package ordered
