package graph

import "github.com/sluiceio/sluice/proto/jobpb"

// Validate reports every fault of g that makes it unplannable. It trusts nothing: a graph comes from a user's process.
func Validate(g *jobpb.Graph) []*jobpb.Diagnostic { return nil }

// Fingerprint identifies what g computes: operators, edges, schemas, state, parameters; not source lines. Every task
// process compares its own with the plan's before it runs anything.
func Fingerprint(g *jobpb.Graph) string { return "" }

// Text is the plan for people.
func Text(p *jobpb.Plan) string { return "" }

// DOT is the plan in the language of Graphviz.
func DOT(p *jobpb.Plan) string { return "" }

// Consumers is the range of consumer subtasks that producer i of an edge sends to.
func Consumers(p jobpb.Partitioner, producers, consumers, i int32) (first, count int32) { return 0, 0 }

// Producers is the range of producer subtasks that consumer i of an edge receives from.
func Producers(p jobpb.Partitioner, producers, consumers, i int32) (first, count int32) { return 0, 0 }
