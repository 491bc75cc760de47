// Package generate is a deterministic source: record i is a function of i.
//
// The indices are dealt to the splits in blocks in turn, so that every split's event times rise with the whole
// stream's, whatever the parallelism. A replay gives the same records.
package generate
