// Package results counts the stored results of an edge by their state.
//
// Pure. Never in here: which transitions they have (coordinator/state), who needs them (coordinator/region).
package results
