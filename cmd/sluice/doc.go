// Command sluice is the one binary of the project: coordinator, worker, development cluster and command line.
//
// This package turns flags, environment and files into options and calls; what the verbs do lives in internal/ops
// (client), internal/cluster (nodes) and internal/job (built-in jobs). Precedence of a value: flag, environment variable
// (SLUICE_ and the flag's name in capitals), the file given by --config (nodes only), default.
//
// Started by a worker as a task process the binary runs the built-in jobs and looks at no argument.
//
// Exit codes: 0 ok, 1 other, 2 usage or plan error, 3 not found, 4 precondition, 5 no leader or unreachable, 6 denied,
// 7 timeout, 8 job failed, 9 job cancelled, 130 interrupted.
package main
