// Command mixed is one job of two worlds: a batch join of two bounded inputs loads the keyed state that a live stream
// then works with. README.md walks through its plan.
//
// It is a job like any user's: it imports flow and connectors, nothing else of the project.
package main
