// Package audit looks at snapshots that lie in directories while nobody uses them: data directories of workers, a shared directory, a
// savepoint that was exported.
//
// It reads every object of every directory for its digest, every manifest as the program would read it, and every chunk of every part
// that a manifest names; and it says of each checkpoint whether the directories together have all of it.
//
// The facts are not here, so two things are not known: which checkpoints have completed, and which objects a plan was deleting when the
// cluster stopped. Therefore what an older checkpoint of the cluster's own lacks is told and is no damage (Superseded); the newest
// one of a job, and those that belong to users, must be whole.
//
// Never here: writing, repairing, the cluster.
package audit
