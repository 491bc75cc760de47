// Package report writes what a run has shown: results.json for programs, report.html for people.
//
// The page stands alone: no script, style or picture is fetched. It has the table of verdicts, a timeline of calls, faults, leader's
// terms, attempts and checkpoints, plots of the workload's rate and of the latency of calls with a band for each fault, how long each kind
// of fault was felt, the first wrong row with its neighbours, and the command that has the run again.
//
// Everything is drawn from the history and the verdicts; the package runs nothing and asks nobody.
package report
