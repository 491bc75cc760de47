package batch

import (
	"errors"
	"testing"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/worker/spill"
	"github.com/sluiceio/sluice/worker/task"
)

func open(t *testing.T, memory int64) (*Memory, error) {
	rt := task.NewRuntime(t.Context(), "op")
	area, err := spill.NewArea(spill.Config{FS: vfs.NewMem(), Dir: "spill"})
	if err != nil {
		t.Fatal(err)
	}
	rt.Batch = task.Batch{Memory: memory, Spill: area}
	return Open(rt)
}

func TestBuffersOfAllPartitionsAreASmallPartOfTheMemory(t *testing.T) {
	for _, memory := range []int64{MinMemory, 100_000, 1 << 20, 8 << 20, 1 << 30} {
		m, err := open(t, memory)
		if err != nil {
			t.Fatal(err)
		}
		for buffers := 1; buffers <= 2; buffers++ {
			parts := int64(1) << m.FanOut(buffers)
			if parts < minFanOut || parts > maxFanOut || parts > minFanOut && parts*int64(buffers)*m.Block() > memory/8 {
				t.Errorf("%d bytes: %d partitions with %d buffers of %d", memory, parts, buffers, m.Block())
			}
		}
		if none, all := m.Needed(2, 0), m.Needed(2, 1<<40); none != 1 || all != m.FanOut(2) {
			t.Errorf("%d bytes: 1<<%d partitions for nothing, 1<<%d for very much", memory, none, all)
		}
		if m.Free() < memory*3/4 {
			t.Errorf("%d bytes: %d are for records", memory, m.Free())
		}
		if err := m.MustSpill(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoLimitIsNoMemoryToo(t *testing.T) {
	m, err := Open(task.NewRuntime(t.Context(), "op"))
	if err != nil {
		t.Fatal(err)
	}
	if !m.Take(1<<50) || m.FanOut(2) == 0 || m.Block() != 0 || m.MustSpill() == nil {
		t.Error("a harness has a limit")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if m, err = open(t, 0); err != nil || m.MustSpill() == nil {
		t.Errorf("%v; memory without limit may be spilled", err)
	}
}

func TestTooLittleMemoryNamesTheOperatorAndTheLeast(t *testing.T) {
	_, err := open(t, MinMemory-1)
	e, ok := errors.AsType[*spill.Error](err)
	if !ok || e.Code != spill.CodeBudget || e.Bytes != MinMemory || e.Path != "op" || !e.Fatal {
		t.Errorf("error is %v", err)
	}
}

// TestLevelsDivideWhatTheLevelsBeforeLeaveTogether: keys of one subtask and one partition spread over all partitions of
// the next level, and over the rows of an index.
func TestLevelsDivideWhatTheLevelsBeforeLeaveTogether(t *testing.T) {
	const bits, n = 4, 1 << 14
	var together []uint64
	for k := uint64(0); len(together) < n; k++ {
		h := codec.Mix(k)
		if codec.KeyGroup(h, 256) < 32 && Level(h, 0)>>(64-bits) == 3 && (len(together) < n/2 || Level(h, 1)>>(64-bits) == 5) {
			together = append(together, h)
		}
	}
	for level := 1; level < 6; level++ {
		hs := together[:n/2]
		if level > 1 {
			hs = together[n/2:]
		}
		var parts [1 << bits]int
		var places [16]int
		for _, h := range hs {
			g := Level(h, level)
			parts[g>>(64-bits)]++
			places[uint32(g>>(64-bits-32))>>28]++
		}
		mean := len(hs) / len(parts)
		for i := range parts {
			if parts[i] < mean*8/10 || parts[i] > mean*12/10 || places[i] < mean*8/10 || places[i] > mean*12/10 {
				t.Errorf("level %d: partition %d has %d keys and place %d has %d, the mean is %d", level, i, parts[i], i, places[i], mean)
			}
		}
	}
}
