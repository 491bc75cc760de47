package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/flow/launch/workdir"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle/stored"
)

func TestOnlyJobsThatKeepFilesGetADirectory(t *testing.T) {
	plan := func(change func(*jobpb.Plan)) *jobpb.Plan {
		p := &jobpb.Plan{
			Graph: &jobpb.Graph{Operators: []*jobpb.Operator{{}, {}}},
			Edges: []*jobpb.Edge{{Exchange: jobpb.ExchangeKind_EXCHANGE_PIPELINED}},
		}
		change(p)
		return p
	}
	for _, c := range []struct {
		change func(*jobpb.Plan)
		want   bool
	}{
		{func(*jobpb.Plan) {}, false},
		{func(p *jobpb.Plan) { p.Edges[0].Exchange = jobpb.ExchangeKind_EXCHANGE_BLOCKING }, true},
		{func(p *jobpb.Plan) { p.Graph.Operators[1].BatchMemory = true }, true},
		{func(p *jobpb.Plan) { p.Graph.Operators[0].Stateful = true }, false}, // the position of a source
		{func(p *jobpb.Plan) {
			p.Graph.Operators[1].Stateful, p.Graph.Operators[1].Inputs = true, []*jobpb.Input{{}}
		}, true},
	} {
		if p := plan(c.change); needsDisk(p) != c.want {
			t.Errorf("%v: %v", p, !c.want)
		}
	}
}

func TestADirectoryOfARunIsGoneWhenItIsOver(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	d, err := openDisk(workdir.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := stored.Name{Job: "j-1", JobEpoch: 1, Attempt: 1}, stored.Name{Job: "j-1", JobEpoch: 1, Attempt: 2, Edge: 3}
	d.store.Learn(stored.Found{Name: a, Bytes: 1}, stored.Found{Name: b, Bytes: 1})
	if got := d.inventory(); len(got) != 2 || got[1].Edge != 3 || got[1].Attempt != 2 {
		t.Errorf("inventory %v", got)
	}
	if err := d.drop(&taskpb.DropPartitions{Job: "j-1", Partitions: []*taskpb.PartitionName{b.Proto()}}); err != nil {
		t.Error(err)
	}
	if got := d.inventory(); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("after a drop: %v", got)
	}
	if err := d.drop(&taskpb.DropPartitions{Job: "j-1", All: true}); err != nil {
		t.Error(err)
	}
	if got := d.inventory(); len(got) != 0 {
		t.Errorf("after everything was dropped: %v", got)
	}
	if err := os.WriteFile(d.dir.Join("left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestADirectoryThatCannotBeMadeIsAnErrorWithItsPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", dir)
	d, err := openDisk(workdir.Default(), nil)
	if err == nil {
		t.Fatalf("made %s", d.dir.Path)
	}
	for code, batch := range map[string]bool{"E120": false, "E125": true} {
		text := noDirectory(&jobpb.Plan{Graph: &jobpb.Graph{Operators: []*jobpb.Operator{{BatchMemory: batch}}}}, err).Error()
		if !strings.HasPrefix(text, "error "+code+": ") || !strings.Contains(text, dir) || !strings.Contains(text, "\n  fix: set TMPDIR ") {
			t.Errorf("%s", text)
		}
	}
}
