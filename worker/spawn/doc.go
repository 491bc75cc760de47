// Package spawn starts a job binary as a task process, and ends what an older agent left behind.
//
// A task process has a directory of its own:
//
//	lock      locked for as long as the process lives, by a descriptor that it inherits
//	process   who it is: job, process number, pid, start time (docs/format/workerdir.md)
//	tmp/      its TMPDIR
//	log/      its output, written by the agent
//
// It gets a clean environment, its directory as working directory, a process group of its own, and dies with its agent
// where the system can promise that (Linux: parent-death signal; everywhere: end of file on the control link).
//
// What never lives here: what to run and when, or what a message means.
//
// Concurrency: Starter.Run owns one operating system thread for its whole life, because Linux sends the parent-death
// signal when the thread that started a child ends, not when the process does. Start may be called from any goroutine
// while Run runs. The methods of Child may be called from any goroutine, Wait from one.
package spawn
