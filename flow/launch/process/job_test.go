//go:build unix

package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/flow/graph"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/worker/task"
)

// The test binary is also the task process: a real runtime, a real job, real sockets.
func TestMain(m *testing.M) {
	if Requested() {
		os.Exit(Main(Job{Name: "numbers", Version: "test", Build: buildNumbers, BuildLimit: time.Second}))
	}
	os.Exit(m.Run())
}

// buildNumbers is a job of two chains: numbers → (by key) → sum. Parameter "do" makes it misbehave.
func buildNumbers(spec *jobpb.JobSpec) (*task.Program, []*jobpb.Diagnostic) {
	switch spec.Params["do"] {
	case "panic":
		var rows []int
		rows[len(spec.Name)]++
	case "reject":
		return nil, []*jobpb.Diagnostic{{Code: "E011", Message: "duplicate id", Where: "main.go:7"}}
	case "nothing":
		return nil, nil
	case "hang":
		select {}
	case "recurse":
		recurse(0, [1 << 10]byte{})
	case "print":
		fmt.Println("planning")
	}
	c, err := codec.Of[int64](codec.NewRegistry())
	if err != nil {
		panic(err)
	}
	id := func(v int64) int64 { return v }
	hash := func(v int64) uint64 { return uint64(v) * 0x9e3779b97f4a7c15 }
	g := &jobpb.Graph{
		Name: "numbers", MaxParallelism: 128,
		Operators: []*jobpb.Operator{
			{Id: "numbers", Kind: "source", Bounded: true, Location: "main.go:1"},
			{Id: "sum", Kind: "sink", Bounded: true, Location: "main.go:2", Inputs: []*jobpb.Input{{
				Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH,
			}}},
		},
	}
	return &task.Program{Graph: g, Nodes: []task.Node{
		{Source: task.NewSource[int64](numbers{stuck: spec.Params["do"] == "stuck", endless: spec.Params["do"] == "endless"}, task.SourceOptions[int64]{})},
		{Stages: []task.Stage{task.NewSink[int64](sum{})}, Exchanges: []task.Exchange{task.NewKeyedExchange(c, id, hash)}},
	}}, nil
}

// recurse calls itself deeper than any stack.
func recurse(depth int, frame [1 << 10]byte) byte {
	if depth < 0 {
		return frame[0]
	}
	frame[0]++
	return recurse(depth+1, frame) + frame[0]
}

// planNumbers is what a coordinator makes of the graph.
func planNumbers() *jobpb.Plan {
	program, _ := buildNumbers(&jobpb.JobSpec{})
	p := &jobpb.Plan{
		Graph:       program.Graph,
		Fingerprint: graph.Fingerprint(program.Graph),
		Chains: []*jobpb.Chain{
			{Index: 0, Operators: []int32{0}, Parallelism: 1, Name: "numbers"},
			{Index: 1, Operators: []int32{1}, Parallelism: 1, Name: "sum"},
		},
		Edges: []*jobpb.Edge{{
			FromOperator: 0, ToOperator: 1, FromChain: 0, ToChain: 1, Partitioner: jobpb.Partitioner_PARTITIONER_HASH,
			Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED,
		}},
		Regions: []*jobpb.Region{{Subtasks: []*jobpb.SubtaskRange{{Chain: 0, Count: 1}, {Chain: 1, Count: 1}}}},
	}
	return p
}

// count is how many numbers there are.
const count = 10_000

type numbers struct{ stuck, endless bool }

func (numbers) Bounded() bool { return true }

func (numbers) OpenEnumerator(context.Context, int, []byte) (connector.Enumerator, error) {
	return &oneSplit{}, nil
}

type oneSplit struct{}

func (*oneSplit) Next(context.Context) ([]connector.Split, error) {
	return []connector.Split{{ID: "all"}}, io.EOF
}
func (*oneSplit) Snapshot(element.CheckpointID) ([]byte, error) { return nil, nil }
func (*oneSplit) Close() error                                  { return nil }

func (n numbers) OpenReader(context.Context, *connector.Task) (connector.Reader[int64], error) {
	return &numberReader{source: n}, nil
}

type numberReader struct {
	source numbers
	splits int
	next   int64
}

func (r *numberReader) Assign(splits []connector.Split) error {
	r.splits += len(splits)
	return nil
}

func (r *numberReader) Poll(ctx context.Context, out *connector.Records[int64]) error {
	if r.splits == 0 {
		return io.EOF
	}
	if r.source.stuck {
		select {} // whatever ctx says
	}
	if r.source.endless {
		<-ctx.Done()
		return nil
	}
	for ; r.next < count; r.next++ {
		if out.Full() {
			return nil
		}
		out.Add(0, r.next, element.Time(r.next), r.next)
	}
	out.Finish(0)
	return io.EOF
}

func (r *numberReader) Describe(connector.SplitIndex, int64) string { return "a number" }
func (r *numberReader) Snapshot(element.CheckpointID) ([]connector.Split, error) {
	return nil, nil
}
func (r *numberReader) Committed(context.Context, element.CheckpointID) error { return nil }
func (r *numberReader) Close() error                                          { return nil }

// sum prints how much has arrived.
type sum struct{}

func (sum) Guarantee() connector.Guarantee { return connector.AtLeastOnce }

func (sum) OpenWriter(context.Context, *connector.Task, [][]byte) (connector.Writer[int64], error) {
	return &sumWriter{}, nil
}

type sumWriter struct {
	connector.NoCommit
	n, total int64
}

func (w *sumWriter) Write(_ context.Context, v int64, _ element.Time) error {
	w.n++
	w.total += v
	return nil
}
func (w *sumWriter) Flush(context.Context) error { return nil }
func (w *sumWriter) End(context.Context) error {
	fmt.Printf("%d numbers, total %d\n", w.n, w.total)
	return nil
}
func (w *sumWriter) Close() error { return nil }
