// Package element is what travels on an edge: records in typed batches, and in band with them watermarks, barriers,
// idleness and the end of input.
//
// It imports the standard library only and holds no behaviour beyond the order of times, so that every other package
// of the data plane can agree on it.
package element
