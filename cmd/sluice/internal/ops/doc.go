// Package ops is what the verbs of the command line do: each is a function of a Session (the cluster, where to write,
// in which form) and its options, and returns an error that Explain turns into a code, a fix and an exit code.
//
// What lives here: the client that finds a coordinator that answers, the verbs, tables and JSON, what is done on the
// user's machine (building, looking at a binary, the digest of a directory, a new job's files). What never does: flags
// and their parsing (package main), processes of a cluster (package cluster), anything of a coordinator or worker but
// its API.
//
// Answers go to Session.Out and nothing else does, so that pipes can rely on it; progress and remarks go to
// Session.Err. JSON is the protobuf JSON of the API, with every field and names of enum values, one document, or one
// per line for what streams. It is stable; tables are for people and are not.
//
// Every call that changes something may be repeated: submits and cancels carry a request id, the others say what shall
// be true. So the client repeats a call whose outcome is unknown, at another coordinator, until the context ends.
//
// Concurrency: a Client may be used from any goroutine; a Session belongs to one verb at a time.
package ops
