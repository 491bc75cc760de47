// Command verify runs what takes too long for every commit, and writes what it saw into docs/verified.md: each claim
// with the command behind it, the figure, and whether it holds.
//
// It needs the full flight data (`make data`) and the binaries (`make build`). It says which claim it is at and how long the
// others have taken. A claim that holds is noted in bin/verify.json: a run that was interrupted goes on where it stopped,
// as long as the binaries are the same; -again begins anew, -only REGEXP runs some claims and leaves the page alone.
package main
