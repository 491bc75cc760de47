package task

import (
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/stored"
	"github.com/sluiceio/sluice/worker/spill"
)

func TestSettingsOfADeployment(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		settings map[string]string
		want     terms
	}{
		{nil, terms{timeout: 2 * time.Millisecond, stored: stored.S2, batch: gib / 4 / 2}},
		{map[string]string{"buffer.timeout": "never", "network.compression": "s2", "batch.compression": "zstd", "schedule": "eager", "batch.memory": "64MiB"},
			terms{timeout: setting.Never, live: shuffle.S2, stored: stored.Zstd, eager: true, batch: 32 << 20}},
		{map[string]string{"buffer.timeout": "0", "batch.compression": "none", "schedule": "lazy", "batch.memory": "50%"},
			terms{stored: stored.Uncompressed, lazy: true, batch: gib / 4}},
		// Of a newer release: not ours to judge.
		{map[string]string{"checkpoint.style": "baroque"}, terms{timeout: 2 * time.Millisecond, stored: stored.S2, batch: gib / 4 / 2}},
	} {
		got, err := termsOf(&taskpb.Deployment{Settings: c.settings, ProcessMemory: gib, Slots: 2})
		if err != nil || got != c.want {
			t.Errorf("%v: %+v %v, want %+v", c.settings, got, err, c.want)
		}
	}
}

// No memory is not memory without a limit.
func TestAShareThatRoundsToNothingIsRefused(t *testing.T) {
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
	if err != nil {
		t.Fatal(err)
	}
	for _, memory := range []string{"0", "1", "0%"} {
		var got Batch
		note := StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
			got = rt.Batch
			return out, Base{}, nil
		})
		j := newJob(t)
		sort := j.then(j.source("src", 1, NewSource(ints(10), SourceOptions[int]{})), "sort", note)
		j.then(sort, "out", NewSink(&collected[int]{}))
		j.prog.Graph.Operators[sort].BatchMemory = true
		c := start(t, j, func(cfg *Config) { cfg.Spill = area })
		d := j.copied(1, 1)
		d.ProcessMemory, d.Slots, d.Settings = 1<<30, 4, map[string]string{"batch.memory": memory}
		deploy(t, c, d)
		c.await(1)
		if got.Memory <= 0 {
			t.Errorf("batch.memory %s: %d bytes, which is no limit", memory, got.Memory)
		}
	}
}

// A batch operator gets its share of the slot and the place to spill; others get neither.
func TestABatchOperatorGetsItsShare(t *testing.T) {
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Batch{}
	note := StageOf[int, int](func(rt *Runtime, out Push[int]) (Push[int], Operator, error) {
		got[rt.Task.Operator] = rt.Batch
		return out, Base{}, nil
	})
	j := newJob(t)
	src := j.source("src", 1, NewSource(ints(10), SourceOptions[int]{}))
	sort := j.then(src, "sort", note)
	pass := j.then(sort, "pass", note)
	top := j.then(pass, "top", note)
	j.then(top, "out", NewSink(&collected[int]{}))
	for _, op := range []int32{sort, top} {
		j.prog.Graph.Operators[op].BatchMemory = true
	}
	c := start(t, j, func(cfg *Config) { cfg.Spill = area })
	d := j.copied(1, 1)
	d.ProcessMemory, d.Slots, d.Settings = 1<<30, 4, map[string]string{"batch.memory": "50%"}
	deploy(t, c, d)
	c.await(1)
	share := Batch{Memory: 1 << 30 / 2 / 4 / 2, Spill: area}
	for id, want := range map[string]Batch{"sort": share, "pass": {}, "top": share} {
		if got[id] != want {
			t.Errorf("%s works in %+v, want %+v", id, got[id], want)
		}
	}
}
