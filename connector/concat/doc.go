// Package concat reads one source to its end and then another one, as one source: history from files, then what is live.
//
// Its splits are those of the two sources, wrapped, so that each source finds its own. All splits of the first source have
// lower phases than those of the second: the engine gives a live split out when every history split has been read to its
// end, by all subtasks. Sources of this package can be concatenated again.
//
// What it leaves to the sources: positions, versions and the places of records. What it never does: read ahead in the second
// source, or look at records.
//
// Concurrency: as package connector says. The reader of the second source is opened with its first split.
package concat
