package collect

import (
	"slices"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
)

func TestRecordsStandInTheOrderOfSubtasksAndCommits(t *testing.T) {
	r := New[string]()
	c, err := r.OpenCommitter(t.Context(), &connector.Task{})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		subtask int
		value   string
	}{{1, "c"}, {0, "a"}, {1, "d"}, {0, "b"}} {
		w, err := r.OpenWriter(t.Context(), &connector.Task{Subtask: x.subtask}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), x.value, element.Time(i)); err != nil {
			t.Fatal(err)
		}
		cs, err := w.Prepare(t.Context(), element.CheckpointID(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Commit(t.Context(), cs); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Values(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("values %q", got)
	}
	if got := r.Times(); !slices.Equal(got, []element.Time{1, 3, 0, 2}) {
		t.Errorf("times %v", got)
	}
	if all := r.All(); all[2].Subtask != 1 {
		t.Errorf("all %v", all)
	}
	r.Reset()
	if got := r.All(); len(got) != 0 {
		t.Errorf("after a reset: %v", got)
	}
}
