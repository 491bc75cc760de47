package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
)

const job = "job-1"

// testPlan: chain 0 (source) and chain 1 (count → sink) with two subtasks each in region 0, chain 2 in a bounded region.
func testPlan() *jobpb.Plan {
	return &jobpb.Plan{
		Graph:  &jobpb.Graph{Name: "g", MaxParallelism: 8, Operators: []*jobpb.Operator{{Id: "in"}, {Id: "count"}, {Id: "out"}, {Id: "table"}}},
		Chains: []*jobpb.Chain{{Index: 0, Operators: []int32{0}, Parallelism: 2}, {Index: 1, Operators: []int32{1, 2}, Parallelism: 2}, {Index: 2, Operators: []int32{3}, Parallelism: 1}},
		Regions: []*jobpb.Region{
			{Index: 0, Checkpointed: true, Subtasks: []*jobpb.SubtaskRange{{Chain: 0, Count: 2}, {Chain: 1, Count: 2}}},
			{Index: 1, Subtasks: []*jobpb.SubtaskRange{{Chain: 2, Count: 1}}},
		},
	}
}

func object(process, id uint64, n int) *jobpb.Object {
	name := string(Segment(job, 1, process, id, n))
	sum := sha256.Sum256([]byte(name))
	return &jobpb.Object{Name: name, Size: 1000, Digest: sum[:]}
}

func part(process, id uint64, at int64) *snapshotpb.Part {
	return &snapshotpb.Part{Segment: object(process, id, 0).Name, Offset: at, Size: 10, Table: "t", End: 8}
}

func ack(chain, index int32, id, base uint64, parts ...*snapshotpb.Part) Acknowledged {
	process := uint64(10 + index)
	a := &snapshotpb.Ack{Checkpoint: id, Chain: chain, Index: index, Attempt: 1, Base: base, State: &snapshotpb.SubtaskState{
		Chain: chain, Index: index, Status: snapshotpb.SubtaskStatus_RUNNING,
	}}
	if chain == 0 {
		a.State.Operators = []*snapshotpb.OperatorState{{Operator: "in", Source: &snapshotpb.SourceState{Have: 1}}}
		return Acknowledged{process, a}
	}
	a.State.Operators = []*snapshotpb.OperatorState{{Operator: "count", Parts: parts}, {Operator: "out", Committables: []*jobpb.Committable{{Sink: "out", Subtask: index, Checkpoint: id}}}}
	for _, p := range parts {
		n, err := Name(p.Segment).Parse()
		if err == nil && n.Process == process && n.Checkpoint > base {
			a.Segments = append(a.Segments, &jobpb.StoredObject{Object: object(n.Process, n.Checkpoint, 0), Stores: []string{"w-a", "w-b"}})
		}
	}
	return Acknowledged{process, a}
}

func input(id uint64, acks ...Acknowledged) ComposeInput {
	return ComposeInput{Job: job, JobEpoch: 1, Checkpoint: id, Kind: jobpb.CheckpointKind_CHECKPOINT_PERIODIC, Plan: testPlan(), Regions: []int32{0}, Acks: acks}
}

// all are acknowledgements of every subtask; those of chain 1 have one new part each.
func all(id, base uint64) []Acknowledged {
	return []Acknowledged{ack(0, 0, id, base), ack(0, 1, id, base), ack(1, 0, id, base, part(10, id, 0)), ack(1, 1, id, base, part(11, id, 0))}
}

func compose(t *testing.T, base *snapshotpb.Manifest, in ComposeInput) *snapshotpb.Manifest {
	t.Helper()
	before := proto.CloneOf(base)
	m, err := Compose(base, in)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(before, base) {
		t.Fatal("the base was changed")
	}
	return m
}

func TestAManifestIsItsBaseAndWhatWasAcknowledged(t *testing.T) {
	first := compose(t, nil, input(3, all(3, 0)...))
	second := compose(t, first, input(5, all(5, 3)...))
	if n := len(second.Subtasks); n != 5 || second.Subtasks[4].Status != snapshotpb.SubtaskStatus_BOUNDED {
		t.Fatalf("%d entries, %v", n, second.Subtasks)
	}
	count := second.Subtasks[2].Operators[0]
	if len(count.Parts) != 2 || count.Parts[0].Segment != object(10, 3, 0).Name || count.Parts[1].Segment != object(10, 5, 0).Name {
		t.Errorf("the chain is %v", count.Parts)
	}
	if out := second.Subtasks[2].Operators[1].Committables; len(out) != 2 || out[0].Checkpoint != 3 || out[1].Checkpoint != 5 {
		t.Errorf("committables %v", out)
	}
	in := input(6, all(6, 5)...)
	in.Confirmed = 5
	if out := compose(t, second, in).Subtasks[2].Operators[1].Committables; len(out) != 1 || out[0].Checkpoint != 6 {
		t.Errorf("committables after a confirmation %v", out)
	}
	if added := Added(first, second, in.Acks); len(added) != 2 {
		t.Errorf("added: %v", added)
	}
	// An attempt that has not heard of 5 says again what 5 has.
	acks := all(7, 5)
	acks[2] = ack(1, 0, 7, 3, part(10, 5, 0), part(10, 7, 0))
	if p := compose(t, second, input(7, acks...)).Subtasks[2].Operators[0].Parts; len(p) != 3 {
		t.Errorf("an older base: %v", p)
	}
	acks = all(7, 5)
	acks[2].Ack.State.Operators[0].Replaced = []string{"t"}
	if p := compose(t, second, input(7, acks...)).Subtasks[2].Operators[0].Parts; len(p) != 1 {
		t.Errorf("replaced: %v", p)
	}
}

func TestAFinishedEntryStays(t *testing.T) {
	acks := all(3, 0)
	acks[2].Ack.State.Status = snapshotpb.SubtaskStatus_FINISHED
	base := compose(t, nil, input(3, acks...))
	next := all(5, 3)
	m := compose(t, base, input(5, next[0], next[1], next[3])) // it has exited
	if s := m.Subtasks[2]; s.Status != snapshotpb.SubtaskStatus_FINISHED || len(s.Operators[0].Parts) != 1 || len(s.Operators[1].Committables) != 1 {
		t.Errorf("the entry is %v", s)
	}
	var refused *Refused
	if _, err := Compose(base, input(5, next...)); !errors.As(err, &refused) {
		t.Errorf("it runs again: %v", err)
	}
}

func TestWhatCannotBecomePartIsRefused(t *testing.T) {
	base := compose(t, nil, input(3, all(3, 0)...))
	for name, change := range map[string]func(*ComposeInput){
		"a newer base":          func(in *ComposeInput) { in.Acks[2].Ack.Base = 4 },
		"no base":               func(in *ComposeInput) { in.Acks[2].Ack.Base = 0 },
		"missing":               func(in *ComposeInput) { in.Acks = in.Acks[1:] },
		"twice":                 func(in *ComposeInput) { in.Acks = append(in.Acks, in.Acks[0]) },
		"of another checkpoint": func(in *ComposeInput) { in.Acks[2].Ack.Checkpoint = 4 },
		"nobody's object": func(in *ComposeInput) {
			p := in.Acks[2].Ack.State.Operators[0]
			p.Parts = append(p.Parts, part(10, 4, 0))
		},
		"another process's object": func(in *ComposeInput) {
			p := in.Acks[2].Ack.State.Operators[0]
			p.Parts = append(p.Parts, part(11, 5, 0))
		},
		"segment of another process": func(in *ComposeInput) { in.Acks[2].Process = 99 },
		"being deleted":              func(in *ComposeInput) { in.Deleting = []string{object(10, 3, 0).Name} },
		"outside":                    func(in *ComposeInput) { in.Acks[2].Ack.State.Operators[0].Parts[0].Size = 1001 },
		"two contents":               func(in *ComposeInput) { in.Acks[2].Ack.Segments[0].Object.Digest = make([]byte, 31) },
		"foreign operator":           func(in *ComposeInput) { in.Acks[2].Ack.State.Operators[0].Operator = "in" },
		"a source that forgot":       func(in *ComposeInput) { in.Acks[0].Ack.State.Operators = nil },
		"output of the future":       func(in *ComposeInput) { in.Acks[2].Ack.State.Operators[1].Committables[0].Checkpoint = 6 },
		"a bounded region":           func(in *ComposeInput) { in.Acks = append(in.Acks, ack(2, 0, 5, 3)) },
		"no such subtask":            func(in *ComposeInput) { in.Acks = append(in.Acks, ack(7, 0, 5, 3)) },
		"another job":                func(in *ComposeInput) { in.Job = "job-2" },
		"an id before the base":      func(in *ComposeInput) { in.Checkpoint = 3 },
		"another plan":               func(in *ComposeInput) { in.Plan.Chains[0].Parallelism, in.Plan.Chains[1].Parallelism = 1, 3 },
	} {
		in := input(5, all(5, 3)...)
		change(&in)
		if m, err := Compose(base, in); err == nil {
			t.Errorf("%s: accepted: %v", name, m)
		}
	}
}

// TestChainsAreWhatWasWritten: over any history of completed and aborted checkpoints and lost notices, the manifest's chain of a
// table is every part written since the beginning, once, in order.
func TestChainsAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var base *snapshotpb.Manifest
		known := uint64(0) // base of the attempt of (1, 0)
		var since []*snapshotpb.Part
		var written []string
		for id := uint64(1); id <= uint64(rapid.IntRange(1, 12).Draw(rt, "checkpoints")); id++ {
			since = append(since, part(10, id, 0))
			written = append(written, since[len(since)-1].Segment)
			if rapid.Bool().Draw(rt, "aborted") {
				continue
			}
			acks := all(id, base.GetCheckpoint())
			acks[2] = ack(1, 0, id, known, since...)
			m, err := Compose(base, input(id, acks...))
			if err != nil {
				rt.Fatal(err)
			}
			var got []string
			for _, p := range m.Subtasks[2].Operators[0].Parts {
				got = append(got, p.Segment)
			}
			if !slices.Equal(got, written) {
				rt.Fatalf("checkpoint %d has %v, written was %v", id, got, written)
			}
			b, err := EncodeManifest(m)
			if err != nil {
				rt.Fatal(err)
			}
			again, err := DecodeManifest(b)
			if err != nil || !proto.Equal(again, m) {
				rt.Fatalf("reads back as something else: %v", err)
			}
			base = m
			if known == 0 || rapid.Bool().Draw(rt, "heard") { // a first base that is not heard of is played by refusals
				known, since = id, nil
			}
		}
	})
}

func TestEveryDamagedByteOfAManifestIsFound(t *testing.T) {
	b, err := EncodeManifest(compose(t, nil, input(3, all(3, 0)...)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 4
		var format *FormatError
		if m, err := DecodeManifest(bad); !errors.Is(err, ErrDamaged) && !(errors.As(err, &format) && (i == 8 || i == 9)) {
			t.Fatalf("byte %d changed: %v, %v", i, m, err)
		}
	}
	for n := range b {
		if _, err := DecodeManifest(b[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestAMissingEntryIsCorruption(t *testing.T) {
	m := compose(t, nil, input(3, all(3, 0)...))
	m.Subtasks = slices.Delete(m.Subtasks, 1, 2)
	var format *FormatError
	if err := Validate(m); !errors.As(err, &format) {
		t.Errorf("got %v", err)
	}
}

func TestStateIsCountedOverWholeChains(t *testing.T) {
	base := compose(t, nil, input(1, all(1, 0)...))
	for id := uint64(2); id <= 17; id++ {
		base = compose(t, base, input(id, all(id, id-1)...))
	}
	if n := StateBytes(base); n != 34*10 {
		t.Errorf("%d bytes of state", n)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	m, err := Compose(nil, input(3, all(3, 0)...))
	if err != nil {
		f.Fatal(err)
	}
	b, err := EncodeManifest(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	body, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := DecodeManifest(b); err == nil {
			if again, err := EncodeManifest(m); err != nil || len(again) == 0 {
				t.Fatalf("what was read cannot be written: %v", err)
			}
		}
		m := &snapshotpb.Manifest{}
		if proto.Unmarshal(b, m) == nil { // what a checksum would hide
			_ = Validate(m)
			_, _ = Compose(m, input(m.Checkpoint+1, all(m.Checkpoint+1, m.Checkpoint)...))
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("job-1/1/2/3-4.segment")
	f.Add("job-1/1/3-4.manifest")
	f.Add("../1/3-4.manifest")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Name(s).Parse()
		if err == nil && (p.Name() != Name(s) || bytes.Contains([]byte(s), []byte("..")) && bytes.HasPrefix([]byte(s), []byte("."))) {
			t.Fatalf("%q reads as %+v", s, p)
		}
	})
}
