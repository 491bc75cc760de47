// Package slab is the memory that keyed state is made of: arrays by dense ids that grow without moving (Slab, Rows), the
// index that finds ids by hashes, sets of ids (Bitmap), pools of pre-images (Log) and of bytes (Arena).
//
// Blocks lie in extents that double up to 4 MiB, so that huge pages can hold them: an access by a random id costs a
// cache miss, and without huge pages the walk of the page tables as well. Everything that takes memory counts it in a
// Meter.
//
// Never here: what the ids mean, and what is done when memory is short.
//
// Concurrency: everything belongs to one goroutine.
package slab
