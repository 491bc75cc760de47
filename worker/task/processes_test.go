package task

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/fault"
)

// pair is a job in two processes that are joined by pipes: even subtasks in process 1, odd ones in process 2.
type pair [2]*cluster

func startPair(t *testing.T, j *job) pair {
	var listeners [2]*bufconn.Listener
	for i := range listeners {
		listeners[i] = bufconn.Listen(64 << 10)
	}
	dial := func(ctx context.Context, p shuffle.Peer) (net.Conn, error) {
		if p.Address != fmt.Sprint("pipe", p.Process) || p.Worker != "w" {
			return nil, fmt.Errorf("unknown peer %v", p)
		}
		return listeners[p.Process-1].DialContext(ctx)
	}
	table := newSplitTable()
	var p pair
	for i := range p {
		p[i] = startProcess(t, j, table, shuffle.NetworkConfig{Process: uint64(i + 1), Listener: listeners[i], Dial: dial})
	}
	return p
}

func (p pair) deploy(t *testing.T, attempt uint32, epoch uint64) {
	t.Helper()
	whole := p[0].job.deployment(attempt, epoch)
	for _, l := range whole.Locations {
		l.Process = uint64(l.Index%2 + 1)
		l.DataAddress = fmt.Sprint("pipe", l.Process)
	}
	for i, c := range p {
		d := proto.CloneOf(whole)
		d.Process = uint64(i + 1)
		d.Subtasks = slices.DeleteFunc(d.Subtasks, func(s *taskpb.SubtaskDeployment) bool { return int(s.Index%2) != i })
		deploy(t, c, d)
	}
}

// words is source → (hash) → double → (rebalance) → sink over n numbers, with p subtasks each.
func words(t *testing.T, n, p int, change ...func(*counted[int])) (*job, *collected[int]) {
	c := mustCodec[int](t)
	src := ints(n)
	src.splits = 5
	for _, f := range change {
		f(src)
	}
	sink := &collected[int]{}
	j := newJob(t)
	in := j.source("src", p, NewSource(src, SourceOptions[int]{Watermarks: WatermarksBounded}))
	double := j.join("double", p, end{
		from: in, by: jobpb.Partitioner_PARTITIONER_HASH, st: mapped(func(v int) int { return 2 * v }),
		x: NewKeyedExchange(c, func(v int) int { return v % 101 }, mustHash[int](t)),
	})
	j.join("out", p, end{from: double, by: jobpb.Partitioner_PARTITIONER_REBALANCE, x: NewExchange(c), st: NewSink(sink)})
	return j, sink
}

func TestAJobInTwoProcessesGivesThePlainResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		j, sink := words(t, n, 4)
		p := startPair(t, j)
		p.deploy(t, 1, 1)
		for _, c := range p {
			for _, u := range c.await(6) {
				if u.State != done {
					t.Fatalf("chain %d subtask %d: %v %v", u.Chain, u.Index, u.State, u.Failure)
				}
			}
		}
		got := sorted(sink.written())
		if len(got) != n {
			t.Fatalf("%d records, want %d", len(got), n)
		}
		for i, v := range got {
			if v != 2*i {
				t.Fatalf("record %d is %d", i, v)
			}
		}
		var in, out, bytesIn, bytesOut int64
		for _, c := range p {
			for _, s := range c.proc.Sample().Counters {
				in, out, bytesIn, bytesOut = in+s.RecordsIn, out+s.RecordsOut, bytesIn+s.BytesIn, bytesOut+s.BytesOut
			}
		}
		if in != 3*n || out != 3*n || bytesIn != bytesOut || bytesIn < n {
			t.Errorf("records %d in, %d out; bytes %d in, %d out", in, out, bytesIn, bytesOut)
		}
	})
}

// The other process dies: what had channels to it fails by a loss, and the next attempt in fresh processes is complete.
func TestTheLossOfAProcessIsNobodysFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _ := words(t, 10_000, 2, func(src *counted[int]) { src.poll = paced(ms) })
		p := startPair(t, j)
		p.deploy(t, 1, 1)
		p[0].awaitRunning(3)
		p[1].awaitRunning(3)
		<-time.After(100 * ms)
		p[1].cut() // the process is gone, its peers see broken connections
		for _, u := range p[0].await(3) {
			if u.State != broken || u.Failure.Kind != jobpb.FailureKind_FAILURE_LOSS || u.Failure.Code != fault.CodePeer {
				t.Errorf("chain %d subtask %d: %v %v", u.Chain, u.Index, u.State, u.Failure)
			}
		}
	})
}
