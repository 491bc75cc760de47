package law

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// rule says what the packages of one room may import. Packages of the same room may import each other, except where a
// room is a set of separate packages (siblings). A package belongs to the first rule that matches it.
type rule struct {
	room     []string // patterns of directories
	project  []string // patterns of this repository's packages
	external []string // module paths, as prefixes
	siblings sibling
	why      string
}

type sibling int

const (
	together sibling = iota // packages of the room may import each other
	apart                   // they may not: each stands alone
)

const (
	protobuf = "google.golang.org/protobuf"
	grpc     = "google.golang.org/grpc"
	hclog    = "github.com/hashicorp/go-hclog"
	compress = "github.com/klauspost/compress"
	sys      = "golang.org/x/sys"
)

// pureCoordinator are the facts and decisions of the coordinator.
var pureCoordinator = []string{
	"coordinator/state", "coordinator/state/ordered", "coordinator/state/vector", "coordinator/state/ledger", "coordinator/state/answer", "coordinator/state/jobid", "coordinator/state/results", "coordinator/state/splits", "coordinator/state/status", "coordinator/state/outline", "coordinator/state/requestid", "coordinator/state/recordfile", "coordinator/plan", "coordinator/region", "coordinator/recovery", "coordinator/checkpoint",
	"coordinator/schedule", "coordinator/schedule/event", "coordinator/schedule/glance", "coordinator/lane", "coordinator/supply", "coordinator/placement", "coordinator/tally", "coordinator/rollout", "coordinator/split", "coordinator/timer", "coordinator/blame", "coordinator/group", "coordinator/draft", "coordinator/adoption",
}

// pure are the packages whose functions are functions: same arguments, same answer.
var pure = join([]string{"flow/element", "flow/graph", "flow/window"}, pureCoordinator)

// leaves know nothing of the domain.
var leaves = []string{"internal/run", "internal/vfs", "internal/invariant", "internal/failpoint", "internal/wire", "internal/pipe"}

func join(lists ...[]string) []string { return slices.Concat(lists...) }

// table is the import graph of the house, leaves first. internal/invariant, which is empty in ordinary builds, is open
// to all and not listed.
var table = []rule{
	{room: []string{"proto/..."}, external: []string{protobuf, grpc},
		why: "wire contracts are what processes agree on; they cannot depend on one side's code"},
	{room: []string{"internal/run", "internal/vfs", "internal/invariant", "internal/failpoint"}, siblings: apart,
		why: "leaves are used everywhere, so whatever they import is everywhere"},
	{room: []string{"internal/wire"}, external: []string{grpc},
		why: "connections know no domain; they are the one place where TLS will be"},
	{room: []string{"internal/probe"}, external: []string{grpc},
		why: "what tools ask of any server has one answer; servers of job binaries do not link it"},
	{room: []string{"internal/pipe"}, project: []string{"internal/wire", "internal/run", "proto/..."}, external: []string{protobuf, sys},
		why: "the private link between an agent and its task processes carries messages, it does not understand them"},
	{room: []string{"flow/element"},
		why: "time, batches and barriers are the alphabet of everything else, connectors of strangers included"},
	{room: []string{"flow/codec"}, project: []string{"flow/element"}, external: []string{protobuf, "github.com/cespare/xxhash"},
		why: "codecs are compiled from a type's structure; jobs link them, so they must stay small"},
	{room: []string{"flow/graph", "flow/setting"}, project: []string{"proto/jobpb"}, external: []string{protobuf},
		why: "the logical graph and its settings are data that coordinator and job read alike; neither may leak into them"},
	{room: []string{"flow/window"}, project: []string{"flow/element"},
		why: "window arithmetic is pure, so that it can be proven by properties"},
	{room: []string{"connector"}, project: []string{"flow/element", "flow/codec"},
		why: "the contract with authors of connectors must not move with the engine"},
	{room: []string{"connector/internal/*"}, project: []string{"connector"}, siblings: apart,
		why: "what several connectors do alike is written once, and is no part of the contract"},
	{room: []string{"connector/*"}, project: []string{"connector", "connector/internal/*", "flow/element", "flow/codec", "internal/vfs", "internal/run", "internal/failpoint"},
		external: []string{compress, protobuf, "github.com/parquet-go/parquet-go"}, siblings: apart,
		why: "a connector works against the contract only: never flow, never worker, so anyone's connector has the same means"},
	{room: []string{"connector/parquet/cmd/..."}, project: []string{"connector", "connector/parquet", "flow/element", "internal/vfs"},
		external: []string{"github.com/parquet-go/parquet-go"}, siblings: apart,
		why: "a tool of a connector stands in the connector's own module, so that what it needs reaches no job"},
	{room: []string{"shuffle", "shuffle/..."}, project: join(leaves, []string{"flow/element", "flow/codec", "proto/..."}),
		external: []string{protobuf, grpc, hclog, compress, sys},
		why:      "the exchange moves typed batches and knows neither who produces them nor on whose behalf: never worker"},
	{room: []string{"snapshot/adopt"}, project: []string{"flow/graph", "snapshot", "snapshot/chunk", "proto/..."}, external: []string{protobuf},
		why: "it compares two plans, so it knows what a plan leaves unsaid; it reads no object"},
	{room: []string{"snapshot/blob", "snapshot/blob/..."}, project: []string{"snapshot", "snapshot/storetest", "proto/jobpb"}, external: []string{"gocloud.dev", "github.com/johannesboyne/gofakes3"},
		why: "the libraries of clouds stand in a module of their own and reach nobody who does not ask for them"},
	{room: []string{"snapshot", "snapshot/..."}, project: join(leaves, []string{"proto/..."}), external: []string{protobuf, grpc, hclog, compress},
		why: "chunks are bytes with names and digests; what is in them is the state's business"},
	{room: []string{"worker/state", "worker/state/..."}, project: []string{"flow/codec", "flow/element", "snapshot", "snapshot/...", "internal/vfs", "internal/run", "internal/failpoint"},
		external: []string{compress, "github.com/dgraph-io/badger"},
		why:      "state is tables and chunks; it knows no operator and no process"},
	{room: []string{"worker/spill"}, project: []string{"flow/codec", "flow/element", "internal/vfs"}, external: []string{compress},
		why: "spill files hold typed records of one process; who spills what, and when, is the operators' business"},
	{room: []string{"worker/task", "worker/task/..."},
		project:  join(leaves, []string{"connector", "flow/graph", "flow/element", "flow/codec", "flow/setting", "worker/spill", "worker/state", "worker/state/...", "shuffle", "shuffle/...", "snapshot", "snapshot/chunk", "snapshot/mem", "proto/..."}),
		external: []string{protobuf, grpc, hclog},
		why:      "the task loop is untyped and common to all operators, so it imports none of them"},
	{room: []string{"worker/operator/operatortest"}, project: []string{"worker/task", "worker/spill", "worker/state", "worker/state/...", "snapshot/chunk", "flow/element", "flow/codec", "connector"},
		external: testOnly, why: "the harness of operators' tests is linked into tests only"},
	{room: []string{"worker/operator/async"}, project: []string{"worker/task", "worker/state", "worker/state/unkeyed", "flow/element", "flow/codec", "connector", "internal/run"},
		why: "the one operator with goroutines: calls run beside the loop, in a group that it waits for"},
	{room: []string{"worker/operator"}, project: []string{"worker/task", "worker/operator/...", "flow/window", "flow/element", "connector"},
		why: "tests alone: the suite that every operator passes"},
	{room: []string{"worker/operator/..."}, project: []string{"worker/task", "worker/spill", "worker/state", "worker/state/...", "flow/window", "flow/element", "flow/codec", "connector", "internal/failpoint"},
		why: "operators are mechanism without the public types, so that flow can convert to them freely"},
	{room: pureCoordinator,
		project: []string{"flow/graph", "flow/setting", "snapshot", "snapshot/adopt", "proto/..."}, external: []string{protobuf},
		why: "decisions are pure functions of facts: never raft, grpc or badger, so that every schedule can be replayed in a test"},
	{room: []string{"flow/launch", "flow/launch/..."},
		project: join(leaves, []string{"worker/task", "worker/task/...", "worker/spill", "worker/state", "worker/state/...", "connector", "flow/graph", "flow/element", "flow/codec", "flow/setting", "proto/...", "shuffle", "shuffle/...", "snapshot", "snapshot/..."},
			pureCoordinator),
		external: []string{protobuf, grpc, hclog, "golang.org/x/term"},
		why:      "the modes of a job binary share the coordinator's pure decisions, never its Raft"},
	{room: []string{"flow"},
		project: join(leaves, []string{"connector", "connector/*", "flow/...", "shuffle", "shuffle/...", "snapshot", "snapshot/...", "worker/spill", "worker/state", "worker/state/...", "worker/task", "worker/task/...", "worker/operator/...", "proto/..."},
			pureCoordinator),
		external: []string{protobuf, hclog},
		why:      "the public façade types and wires; whoever imports it links it, so nothing of a server"},
	{room: []string{"flow/flowtest", "flow/flowtest/..."}, project: []string{"flow", "flow/...", "connector", "connector/*", "worker/task", "worker/state", "worker/state/...", "worker/operator/...", "flow/element", "internal/run", "internal/vfs", "internal/failpoint", "proto/jobpb"},
		why: "the test kit is for users: the façade and what it stands on, no cluster"},
	{room: []string{"coordinator", "coordinator/..."},
		project:  join(leaves, pureCoordinator, []string{"flow/graph", "flow/setting", "internal/probe", "snapshot", "snapshot/peer", "snapshot/fs", "proto/..."}),
		external: []string{protobuf, grpc, hclog, sys, "github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb", "go.etcd.io/bbolt", "github.com/prometheus/client_golang"},
		why:      "the Raft node drives the pure packages; user code never runs in it, so never flow, launch, worker or shuffle"},
	{room: []string{"worker", "worker/..."}, // after worker/{state,task,operator}: the agent
		project:  join(leaves, []string{"flow/setting", "internal/probe", "shuffle", "shuffle/...", "snapshot", "snapshot/...", "proto/..."}),
		external: []string{protobuf, grpc, hclog, sys, compress, "github.com/prometheus/client_golang"},
		why:      "the agent must survive whatever a job does, so it links no task runtime, no operator, no state; and it meets the coordinator in proto only"},
	{room: []string{"examples/nexmark/..."}, project: []string{"flow", "flow/...", "connector", "connector/*"},
		why: "the queries are a package, so that what is measured is what the example runs"},
	{room: []string{"examples/..."}, project: []string{"flow", "flow/...", "connector", "connector/*"}, external: []string{"github.com/parquet-go/parquet-go"}, siblings: apart,
		why: "an example uses what any user can use"},
	{room: []string{"jepsen", "jepsen/..."}, project: []string{"proto/...", "internal/run", "internal/wire", "internal/vfs", "internal/failpoint"},
		external: []string{protobuf, grpc, hclog, sys, compress, "github.com/anishathalye/porcupine"},
		why:      "a black box cannot look inside: it sees processes, the API and files, which are read as docs/format says"},
	{room: []string{"cmd/sluice/internal/cluster"}, project: join(leaves, []string{"flow/codec", "proto/...", "coordinator", "worker", "cmd/sluice/internal/ops"}), external: []string{hclog, grpc, protobuf, sys},
		why: "the verbs that run nodes are the only ones that link them"},
	{room: []string{"cmd/sluice/internal/job"}, project: []string{"flow", "flow/...", "connector", "connector/*", "proto/jobpb"},
		why: "the built-in jobs are ordinary jobs"},
	{room: []string{"cmd/sluice/internal/suite"}, project: []string{"jepsen", "jepsen/...", "internal/run", "cmd/sluice/internal/ops"},
		why: "the verb of fault injection torments processes from outside, as the suite does, and links nothing that it could excuse"},
	{room: []string{"cmd/sluice/internal/archive"}, project: []string{"cmd/sluice/internal/ops", "internal/vfs", "internal/run", "internal/wire", "snapshot", "snapshot/*", "proto/..."}, external: []string{grpc},
		why: "the verbs of snapshots on a disk read files and ask the API; what is in a snapshot is the business of snapshot"},
	{room: []string{"cmd/sluice/internal/ops"}, project: join(leaves, []string{"flow/graph", "proto/..."}),
		external: []string{grpc, protobuf, "github.com/schollz/progressbar", "golang.org/x/term", sys},
		why:      "a client speaks the API and prints plans as jobs do; it must not know how a coordinator works inside"},
	{room: []string{"cmd/sluice/internal/bench"},
		why: "who conducts a measurement links nothing that is measured: it starts processes and compares what they print"},
	{room: []string{"cmd/sluice"}, project: []string{"cmd/sluice/internal/*", "internal/wire", "internal/failpoint", "proto/..."},
		external: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", hclog, "golang.org/x/term", grpc},
		why:      "main is a list of verbs; what they do lives below"},
	{room: []string{"bench/ratio"},
		why: "a stopwatch knows nothing of what it measures"},
	{room: []string{"bench", "bench/..."}, project: []string{"bench/...", "flow", "flow/...", "connector", "connector/*", "examples/nexmark/query", "shuffle", "shuffle/...", "snapshot", "snapshot/...", "worker/...", "coordinator/...", "internal/...", "proto/..."},
		external: []string{protobuf, grpc, hclog, "github.com/HdrHistogram/hdrhistogram-go"},
		why:      "benchmarks reach into every room"},
	{room: []string{"internal/law"}, why: "laws read the source, they do not run it"},
	{room: []string{"internal/trial", "internal/badinput"}, project: []string{"flow", "flow/...", "connector", "connector/*"}, siblings: apart,
		why: "a job that is wrong on purpose has the means that any job has"},
	{room: []string{"internal/demo", "internal/verify", "internal/endtoend"}, project: []string{"proto/...", "internal/run"}, external: []string{protobuf},
		siblings: apart, why: "what shows the product uses it as a user does: by its commands"},
	{room: []string{"internal/tools/..."}, external: []string{protobuf, grpc, "github.com/bufbuild/protocompile", "honnef.co/go/tools"},
		why: "tools of development stay out of the product"},
}

// testOnly may be imported by every test, and by nothing else.
var testOnly = []string{"github.com/google/go-cmp", "pgregory.net/rapid", "github.com/cockroachdb/datadriven"}

// testsToo are packages of this repository that every test may import on top of its room's: leaves, the stopwatch, the suite of
// connectors, and the harness of operators.
var testsToo = join(leaves, []string{"bench/ratio", "worker/operator/operatortest", "connector/suite"})

func ruleFor(dir string) (rule, bool) {
	for _, r := range table {
		if matchesAny(r.room, dir) {
			return r, true
		}
	}
	return rule{}, false
}

func TestImportsFollowTheTable(t *testing.T) {
	tr := house(t)
	for _, p := range tr.packages {
		r, ok := ruleFor(p.dir)
		if !ok {
			t.Errorf("%s: no room for this package in the import table", p.dir)
			continue
		}
		for _, f := range p.files {
			for imported, pos := range f.imports() {
				if !allowed(p, f, r, imported) {
					t.Errorf("%s: %s must not import %s\n\t%s", tr.at(pos), p.dir, imported, r.why)
				}
			}
		}
	}
}

func allowed(p *pkg, f *file, r rule, imported string) bool {
	if !strings.Contains(strings.Split(imported, "/")[0], ".") {
		return true // standard library; the pure packages have a law of their own
	}
	dir, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		return prefixed(r.external, imported) || f.test && prefixed(testOnly, imported)
	}
	own := dir == p.dir || r.siblings == together && matchesAny(r.room, dir)
	if own { // a broad room ends where a narrower one begins
		target, ok := ruleFor(dir)
		own = dir == p.dir || ok && slices.Equal(target.room, r.room)
	}
	return own || dir == "internal/invariant" || matchesAny(r.project, dir) || f.test && matchesAny(testsToo, dir)
}

func prefixed(modules []string, imported string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") })
}

// wall is a pair that must not meet, through any number of packages between.
type wall struct {
	from, to []string
	why      string
}

var walls = []wall{
	{[]string{"worker", "worker/..."}, []string{"coordinator", "coordinator/..."}, "agent and coordinator meet in proto only, so either can be upgraded alone"},
	{[]string{"coordinator", "coordinator/..."}, []string{"worker", "worker/..."}, "coordinator and agent meet in proto only, so either can be upgraded alone"},
	{[]string{"coordinator", "coordinator/..."}, []string{"flow", "flow/launch/...", "flow/codec", "connector/...", "shuffle/..."}, "user code and its types never reach a coordinator"},
	{[]string{"shuffle", "shuffle/..."}, []string{"worker/...", "coordinator/...", "flow/launch/...", "connector/..."}, "the exchange serves whoever holds both ends"},
	{[]string{"connector", "connector/..."}, []string{"flow", "flow/launch/...", "worker/...", "shuffle/...", "coordinator/..."}, "connectors work against the contract only"},
	{[]string{"flow", "flow/..."}, []string{"coordinator/api", "coordinator/consensus", "coordinator/artifact"}, "a job binary links no Raft"},
	{[]string{"jepsen", "jepsen/..."}, []string{"coordinator/...", "worker/...", "flow/...", "shuffle/...", "snapshot/..."}, "a black box cannot look inside"},
	{[]string{"proto/..."}, []string{"flow/...", "worker/...", "coordinator/...", "internal/..."}, "contracts depend on nobody"},
}

// agent are the packages of the worker's agent: those of worker that are not the task runtime.
func agent(dir string) bool {
	return matches("worker/...", dir) && !matchesAny([]string{"worker/task/...", "worker/operator/...", "worker/spill", "worker/state/..."}, dir)
}

func TestWallsHoldThroughAnyPath(t *testing.T) {
	tr := house(t)
	graph := internalGraph(tr)
	for _, p := range tr.packages {
		reach := reachable(graph, p.dir)
		for _, w := range walls {
			if !matchesAny(w.from, p.dir) {
				continue
			}
			for _, to := range slices.Sorted(maps.Keys(reach)) {
				if matchesAny(w.to, to) && to != p.dir && !matchesAny(w.from, to) {
					t.Errorf("%s reaches %s (%s)\n\t%s", p.dir, to, strings.Join(chain(graph, p.dir, to), " → "), w.why)
				}
			}
		}
		for to := range reach {
			if agent(p.dir) && matchesAny([]string{"worker/task/...", "worker/operator/...", "worker/spill", "worker/state/..."}, to) {
				t.Errorf("%s reaches %s (%s)\n\tthe agent must survive whatever a job does", p.dir, to, strings.Join(chain(graph, p.dir, to), " → "))
			}
		}
	}
}

// internalGraph has the imports inside the repository, tests left out.
func internalGraph(tr *tree) map[string][]string {
	graph := map[string][]string{}
	for _, p := range tr.packages {
		for _, f := range p.files {
			if f.test {
				continue
			}
			for imported := range f.imports() {
				if dir, ours := strings.CutPrefix(imported, module+"/"); ours {
					graph[p.dir] = append(graph[p.dir], dir)
				}
			}
		}
		slices.Sort(graph[p.dir])
	}
	return graph
}

func reachable(graph map[string][]string, from string) map[string]bool {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(dir string) {
		for _, to := range graph[dir] {
			if !seen[to] {
				seen[to] = true
				visit(to)
			}
		}
	}
	visit(from)
	return seen
}

// chain is a shortest path between two packages, for the failure message.
func chain(graph map[string][]string, from, to string) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range graph[queue[0]] {
			if _, seen := before[next]; seen {
				continue
			}
			before[next] = queue[0]
			if next != to {
				queue = append(queue, next)
				continue
			}
			path := []string{to}
			for at := queue[0]; at != ""; at = before[at] {
				path = append(path, at)
			}
			slices.Reverse(path)
			return path
		}
	}
	return nil
}

// TestTableIsAlive keeps the table from outliving what it speaks of: a room that does not exist yet is named.
func TestTableIsAlive(t *testing.T) {
	tr := house(t)
	for _, r := range table {
		if !slices.ContainsFunc(tr.packages, func(p *pkg) bool { return matchesAny(r.room, p.dir) }) {
			t.Logf("not built yet: %s", strings.Join(r.room, " "))
		}
		if r.why == "" {
			t.Errorf("%v: a wall without a reason", r.room)
		}
	}
}
