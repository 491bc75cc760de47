package adopt

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/snapshot/chunk"
)

// planOf is source → count (keyed) → sink with the keyed part at parallelism n.
func planOf(n int32) *jobpb.Plan {
	g := &jobpb.Graph{MaxParallelism: 16, Operators: []*jobpb.Operator{
		{Id: "events", Kind: "source"},
		{
			Id: "count", Kind: "process", Stateful: true, Inputs: []*jobpb.Input{{Operator: 0, Partitioner: jobpb.Partitioner_PARTITIONER_HASH, KeySchema: "string"}},
			States: []*jobpb.StateDeclaration{{Kind: "value", Name: "n", Schema: "int64"}},
		},
		{Id: "out", Kind: "sink", Inputs: []*jobpb.Input{{Operator: 1}}},
	}}
	return &jobpb.Plan{
		Graph:   g,
		Chains:  []*jobpb.Chain{{Index: 0, Operators: []int32{0}, Parallelism: n, Name: "events"}, {Index: 1, Operators: []int32{1, 2}, Parallelism: n, Name: "count → out"}},
		Regions: []*jobpb.Region{{Index: 0, Subtasks: []*jobpb.SubtaskRange{{Chain: 0, Count: n}, {Chain: 1, Count: n}}, Checkpointed: true}},
	}
}

func manifestOf(p *jobpb.Plan) *snapshotpb.Manifest {
	m := &snapshotpb.Manifest{Version: 1, Job: "a-1", JobEpoch: 1, Checkpoint: 5, Plan: p}
	for _, c := range p.Chains {
		for i := range c.Parallelism {
			m.Subtasks = append(m.Subtasks, &snapshotpb.SubtaskState{Chain: c.Index, Index: i, Status: snapshotpb.SubtaskStatus_RUNNING})
		}
	}
	return m
}

func same(old, now string) error {
	if old != now {
		return errors.New("not the same")
	}
	return nil
}

// TestEveryGroupKeepsItsNewestPart plays changes of parallelism with writes in between: whoever owns a key group must find, through
// the parts of its manifest entry, what was written last for that group, and no older part behind it.
func TestEveryGroupKeepsItsNewestPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 7).Draw(t, "parallelism")
		m := manifestOf(planOf(n))
		newest := map[int32]string{}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "rescale") {
				n = rapid.Int32Range(1, 7).Draw(t, "parallelism")
				var err error
				if m, err = Translate(m, Input{Job: "a-1", JobEpoch: uint64(step) + 2, Checkpoint: 6, Plan: planOf(n), Fits: same}); err != nil {
					t.Fatal(err)
				}
			}
			i := rapid.Int32Range(0, n-1).Draw(t, "writer")
			first, end := KeyGroups(i, n, 16)
			if first == end {
				continue
			}
			part := &snapshotpb.Part{Segment: fmt.Sprintf("s%d", step), First: first, End: end, Size: 1}
			entry := find(m, 1, i)
			if len(entry.Operators) == 0 {
				entry.Operators = []*snapshotpb.OperatorState{{Operator: "count"}}
			}
			entry.Operators[0].Parts = append(entry.Operators[0].Parts, part)
			m.Objects = append(m.Objects, &jobpb.Object{Name: part.Segment, Size: 1})
			for g := first; g < end; g++ {
				newest[g] = part.Segment
			}
			got := map[int32]string{}
			for i := range n {
				first, end := KeyGroups(i, n, 16)
				for _, o := range find(m, 1, i).Operators {
					for _, p := range o.Parts { // as a restore does: in order, each for the groups that are named for it
						if p.First < first || p.End > end {
							t.Fatalf("subtask %d owns [%d, %d) and names a part for [%d, %d)", i, first, end, p.First, p.End)
						}
						for g := p.First; g < p.End; g++ {
							got[g] = p.Segment
						}
					}
				}
			}
			for g, want := range newest {
				if got[g] != want {
					t.Fatalf("step %d, parallelism %d: group %d ends with %q, want %q", step, n, g, got[g], want)
				}
			}
			if len(got) != len(newest) {
				t.Fatalf("%d groups are read, %d were written", len(got), len(newest))
			}
		}
	})
}

func find(m *snapshotpb.Manifest, chain, index int32) *snapshotpb.SubtaskState {
	for _, s := range m.Subtasks {
		if s.Chain == chain && s.Index == index {
			return s
		}
	}
	panic("no such subtask")
}

// TestSplitsAreReadOnceMore: of all splits, those that were begun are given out with their positions, those that nobody had stay, and those
// that were finished are gone, whatever the parallelism.
func TestSplitsAreReadOnceMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 5).Draw(t, "parallelism")
		m := manifestOf(planOf(n))
		facts := &jobpb.SourceState{Operator: 0, Complete: rapid.Bool().Draw(t, "complete"), Enumerator: []byte("e")}
		splits := rapid.IntRange(0, 20).Draw(t, "splits")
		want := map[string]string{}
		given := make([][]int32, n)
		for i := range splits {
			facts.Splits = append(facts.Splits, &jobpb.Split{Id: fmt.Sprint(i), Data: []byte("0")})
			if rapid.Bool().Draw(t, "assigned") {
				owner := rapid.Int32Range(0, n-1).Draw(t, "owner")
				facts.Assignments = append(facts.Assignments, &jobpb.SplitAssignment{Subtask: owner, Split: int32(i)})
				given[owner] = append(given[owner], int32(i))
			}
			want[fmt.Sprint(i)] = "0"
		}
		for i := range n {
			s := &snapshotpb.SourceState{WatermarkUs: int64(10 + i), Have: int32(rapid.IntRange(0, len(given[i])).Draw(t, "have"))}
			for _, split := range given[i][:s.Have] {
				id := fmt.Sprint(split)
				if rapid.Bool().Draw(t, "finished") {
					delete(want, id)
					continue
				}
				want[id] = "7"
				s.Splits = append(s.Splits, &snapshotpb.SplitState{Split: &jobpb.Split{Id: id, Data: []byte("7")}, Index: split, WatermarkUs: int64(split)})
			}
			find(m, 0, i).Operators = []*snapshotpb.OperatorState{{Operator: "events", Source: s}}
		}
		m.Sources = []*jobpb.SourceState{facts}
		to := rapid.Int32Range(1, 5).Draw(t, "new parallelism")
		got, err := Translate(m, Input{Job: "b-2", JobEpoch: 1, Checkpoint: 1, Plan: planOf(to), Fits: same})
		if err != nil {
			t.Fatal(err)
		}
		s := got.Sources[0]
		if s.Complete != facts.Complete || string(s.Enumerator) != "e" || len(s.Splits) != len(want) {
			t.Fatalf("%v: want %d splits", s, len(want))
		}
		for _, split := range s.Splits {
			if string(split.Data) != want[split.Id] {
				t.Fatalf("split %s stands at %s, want %s", split.Id, split.Data, want[split.Id])
			}
		}
		owned := 0
		for i := range to {
			src := find(got, 0, i).Operators[0].Source
			owned += len(src.Splits)
			if int(src.Have) != len(src.Splits) || src.WatermarkUs != 10 {
				t.Fatalf("subtask %d: %v", i, src)
			}
			var own []string
			for _, a := range s.Assignments {
				if a.Subtask == i {
					own = append(own, s.Splits[a.Split].Id)
				}
			}
			for _, x := range src.Splits {
				if own[x.Index] != x.Split.Id {
					t.Fatalf("split %s has the number of %s", x.Split.Id, own[x.Index])
				}
			}
		}
		if owned != len(s.Assignments) {
			t.Fatalf("%d splits are read, %d assigned", owned, len(s.Assignments))
		}
	})
}

// TestWritersGoToTheIndexModuloTheParallelism: and output that was prepared is left behind, since whoever adopts a checkpoint waits until
// it is visible.
func TestWritersGoToTheIndexModuloTheParallelism(t *testing.T) {
	m := manifestOf(planOf(3))
	for i := range int32(3) {
		find(m, 1, i).Operators = []*snapshotpb.OperatorState{{
			Operator: "out", Writer: []byte{byte(i)}, Committables: []*jobpb.Committable{{Sink: "out", Subtask: i, Checkpoint: 4}},
		}}
	}
	got, err := Translate(m, Input{Job: "a-1", JobEpoch: 2, Checkpoint: 6, Plan: planOf(2), Fits: same})
	if err != nil {
		t.Fatal(err)
	}
	zero, one := find(got, 1, 0).Operators[0], find(got, 1, 1).Operators[0]
	if string(zero.Writer) != "\x00" || len(zero.Writers) != 1 || zero.Writers[0][0] != 2 || len(zero.Committables) != 0 || string(one.Writer) != "\x01" || len(one.Writers) != 0 {
		t.Fatalf("subtask 0: %v, subtask 1: %v", zero, one)
	}
}

// TestABroadcastIsWholeAndSubtaskZeros: it is the same in every subtask and the first one writes it, so no other names its parts.
func TestABroadcastIsWholeAndSubtaskZeros(t *testing.T) {
	m := manifestOf(planOf(1))
	find(m, 1, 0).Operators = []*snapshotpb.OperatorState{{Operator: "count", Parts: []*snapshotpb.Part{{Segment: "s", Table: "rules", Scope: int32(chunk.Broadcast), End: 16}}}}
	m.Objects = []*jobpb.Object{{Name: "s"}}
	for _, n := range []int32{3, 1, 16} {
		var err error
		if m, err = Translate(m, Input{Job: "a-1", JobEpoch: 2, Checkpoint: 6, Plan: planOf(n), Fits: same}); err != nil {
			t.Fatal(err)
		}
		_, end := KeyGroups(0, n, 16)
		for i := range n {
			ops := find(m, 1, i).Operators
			if (len(ops) > 0) != (i == 0) {
				t.Fatalf("parallelism %d, subtask %d: %v", n, i, ops)
			}
			if i == 0 && (ops[0].Parts[0].First != 0 || ops[0].Parts[0].End != end) {
				t.Fatalf("parallelism %d: %v", n, ops[0].Parts)
			}
		}
	}
}

func TestClocksAreTheLowest(t *testing.T) {
	m := manifestOf(planOf(2))
	find(m, 1, 0).Clocks = []*snapshotpb.InputClock{{WatermarkUs: 70, Idle: true}}
	find(m, 1, 1).Clocks = []*snapshotpb.InputClock{{WatermarkUs: 50, Ended: true}}
	got, err := Translate(m, Input{Job: "a-1", JobEpoch: 2, Checkpoint: 6, Plan: planOf(3), Fits: same})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(3) {
		if c := find(got, 1, i).Clocks; len(c) != 1 || c[0].WatermarkUs != 50 || c[0].Idle || c[0].Ended {
			t.Fatalf("subtask %d: %v", i, c)
		}
	}
}

func TestWhatCannotBeAdopted(t *testing.T) {
	stateful := func() *snapshotpb.Manifest {
		m := manifestOf(planOf(1))
		m.Objects = []*jobpb.Object{{Name: "s"}}
		find(m, 1, 0).Operators = []*snapshotpb.OperatorState{{Operator: "count", Parts: []*snapshotpb.Part{{Segment: "s", End: 16}}}}
		return m
	}
	for _, c := range []struct {
		name   string
		code   string
		change func(*snapshotpb.Manifest, *jobpb.Plan)
		ignore []string
	}{
		{"key groups", CodeGroups, func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.MaxParallelism = 32 }, nil},
		{"operator", CodeOperator, func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[1].Id = "other" }, nil},
		{"ignored operator", "", func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[1].Id = "other" }, []string{"count"}},
		{"operator without state", "", func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[2].Id = "other" }, nil},
		{"state", CodeOperator, func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[1].States[0].Name = "m" }, nil},
		{"type", CodeType, func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[1].States[0].Schema = "string" }, nil},
		{"kind", CodeType, func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[1].States[0].Kind = "list" }, nil},
		{"key", CodeType, func(_ *snapshotpb.Manifest, p *jobpb.Plan) { p.Graph.Operators[1].Inputs[0].KeySchema = "int64" }, nil},
		{"results", CodeResults, func(m *snapshotpb.Manifest, _ *jobpb.Plan) {
			find(m, 1, 0).Positions = []*snapshotpb.Position{{Edge: 0, Records: 3}}
		}, nil},
		{"chain", "E154", func(m *snapshotpb.Manifest, _ *jobpb.Plan) { m.Subtasks[0].Chain = 9 }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, p := stateful(), planOf(1)
			c.change(m, p)
			_, err := Translate(m, Input{Job: "b-2", JobEpoch: 1, Checkpoint: 1, Plan: p, Ignore: c.ignore, Fits: same})
			if c.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%v, want code %s", err, c.code)
			}
			if e.Code != c.code || e.Hint == "" && c.code != "E154" {
				t.Fatalf("%s (%s), want code %q and a way out", e, e.Code, c.code)
			}
		})
	}
}
