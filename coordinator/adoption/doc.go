// Package adoption brings a checkpoint to another plan: that of a job which begins with a savepoint, or of one that goes on at another
// parallelism. It reads the manifest, translates it (snapshot/adopt), and has the result stored; then a command may put it into the facts.
//
// Data flow: coordinator/schedule makes an Adoption when a plan waits for one → Step says what to read or to store → Fetched and Stored
// bring the answers → Result. A store that does not answer is asked again until the time is over. What another leader began is begun
// again: the name of a manifest has the term, so that nothing is written twice under one name with different content.
//
// Concurrency: an Adoption belongs to the goroutine of its leader. Never here: objects (snapshot), what the facts say of a job
// (coordinator/state).
package adoption
