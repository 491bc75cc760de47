// Command verify runs what takes too long for every commit, and writes what it saw into docs/verified.md: each claim
// with the command behind it, the figure, and whether it holds.
//
// It needs the full flight data (`make data`) and the binaries (`make build`).
package main
