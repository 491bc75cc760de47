// Package collect is a sink that gathers records in memory, for tests: flow/flowtest's sinks are made of it.
//
// Records appear as two-phase commit makes output visible: those of an attempt that fails are never seen. Works within
// one process only.
package collect
