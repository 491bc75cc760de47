// Package logfile keeps the newest output of a task process: a directory of segments, each named after the position of
// its first byte in the whole output, the oldest removed when the bound is reached.
//
//	00000000000000000000.log  00000000000008388608.log  …
//
// Positions never restart, so a reader that follows the output survives every rotation, and knows when it has been
// overtaken. Segments hold the plain bytes: people read them with other tools too.
//
// What never lives here: which process it is, and who may read.
//
// Concurrency: Writer.Write may be called from several goroutines (standard output and standard error); each call is
// kept in one piece. A Reader belongs to one goroutine and shares nothing with the writer but the directory.
package logfile
