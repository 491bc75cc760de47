package suite

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/run"
)

// Place is an empty place outside of the process, such as a directory, with a sink that writes there.
type Place[T any] struct {
	Sink connector.Sink[T]
	// Visible is what a reader outside sees now, by name, in any order.
	Visible func(t testing.TB) []string
	// Leftovers counts what is neither visible nor gone. nil if nothing outlives a writer.
	Leftovers func(t testing.TB) int
	// Litter puts something of somebody else there, and returns the check that it is untouched. nil if nobody else can.
	Litter func(t testing.TB) (untouched func(t testing.TB))
}

// Sink describes a sink under test.
type Sink[T any] struct {
	// Open makes a place of its own.
	Open func(t testing.TB) Place[T]
	// Values are at least six different records, and Name is what Visible calls them.
	Values []T
	Name   func(T) string
}

// TestSink checks a sink: output appears when its guarantee allows, once, and nothing else is touched.
func TestSink[T any](t *testing.T, s Sink[T]) {
	if len(s.Values) < 6 {
		t.Fatal("the suite needs six records")
	}
	p := s.Open(t)
	g := p.Sink.Guarantee()
	if g.String() == "unspecified" {
		t.Errorf("guarantee %d", g)
	}
	_, commits := p.Sink.(connector.CommittingSink)
	if !commits {
		if g == connector.ExactlyOnce {
			t.Error("exactly once without a committer")
		}
		t.Run("written is visible after Flush", s.plain)
		return
	}
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"output appears by commit, and once", s.once},
		{"a commit that was cut short is completed", s.partial},
		{"checkpoints are committed one by one", s.several},
		{"two committers at once", s.twins},
		{"aborted output never appears", s.aborted},
		{"an abort does not touch what is committed", s.late},
		{"what was not prepared is discarded", s.discarded},
		{"leftovers of lower epochs go and nothing else", s.leftovers},
		{"two jobs and two sinks in one place", s.shared},
		{"a subtask without records", s.empty},
	} {
		t.Run(c.name, c.test)
	}
}

// Task is a task of job and sink with the region epoch.
func task(job, sink string, subtask int, region uint64) *connector.Task {
	return &connector.Task{Job: job, Operator: sink, Subtask: subtask, Parallelism: 4, Attempt: uint32(region), JobEpoch: 1, RegionEpoch: region}
}

func (s Sink[T]) writer(t *testing.T, p Place[T], tk *connector.Task) connector.Writer[T] {
	t.Helper()
	w, err := p.Sink.OpenWriter(t.Context(), tk, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (s Sink[T]) write(t *testing.T, w connector.Writer[T], vs ...T) {
	t.Helper()
	for i, v := range vs {
		if err := w.Write(t.Context(), v, element.Time(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// prepare flushes and prepares checkpoint id.
func (s Sink[T]) prepare(t *testing.T, w connector.Writer[T], id element.CheckpointID) []connector.Committable {
	t.Helper()
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	cs, err := w.Prepare(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Snapshot(id); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, c := range cs {
		if len(c.Data) > 64<<10 {
			t.Errorf("a committable of %d bytes; the coordinators keep 64 KiB", len(c.Data))
		}
		if c.Checkpoint != id || seen[c.N] {
			t.Errorf("committable %d of checkpoint %d, prepared for %d", c.N, c.Checkpoint, id)
		}
		seen[c.N] = true
	}
	return cs
}

// output is one bounded attempt: it writes, ends and prepares.
func (s Sink[T]) output(t *testing.T, p Place[T], tk *connector.Task, vs ...T) []connector.Committable {
	t.Helper()
	w := s.writer(t, p, tk)
	s.write(t, w, vs...)
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	cs := s.prepare(t, w, 1)
	s.close(t, w)
	return cs
}

func (s Sink[T]) close(t *testing.T, w connector.Writer[T]) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Errorf("close of the writer: %v", err)
	}
}

func (s Sink[T]) committer(t *testing.T, p Place[T], tk *connector.Task) connector.Committer {
	t.Helper()
	c, err := p.Sink.(connector.CommittingSink).OpenCommitter(t.Context(), &connector.Task{Job: tk.Job, Operator: tk.Operator,
		Parallelism: tk.Parallelism, JobEpoch: tk.JobEpoch, RegionEpoch: tk.RegionEpoch})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close of the committer: %v", err)
		}
	})
	return c
}

func (s Sink[T]) commit(t *testing.T, c connector.Committer, cs []connector.Committable, want ...connector.CommitResult) {
	t.Helper()
	got, err := c.Commit(t.Context(), cs)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 1 {
		want = slices.Repeat(want, len(cs))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("commit gave %v, want %v", got, want)
	}
}

func (s Sink[T]) visible(t *testing.T, p Place[T], when string, vs ...T) {
	t.Helper()
	var want []string
	for _, v := range vs {
		want = append(want, s.Name(v))
	}
	got := slices.Clone(p.Visible(t))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: visible is %q, want %q", when, got, want)
	}
}

func (s Sink[T]) plain(t *testing.T) {
	p := s.Open(t)
	w := s.writer(t, p, task("job", "sink", 0, 1))
	s.write(t, w, s.Values[:3]...)
	if cs := s.prepare(t, w, 1); len(cs) > 0 {
		t.Errorf("%d committables, and nobody to commit them", len(cs))
	}
	s.visible(t, p, "flushed", s.Values[:3]...)
	s.write(t, w, s.Values[3:]...)
	if err := errors.Join(w.Flush(t.Context()), w.End(t.Context())); err != nil {
		t.Fatal(err)
	}
	s.prepare(t, w, 2)
	s.close(t, w)
	s.visible(t, p, "ended", s.Values...)
}

func (s Sink[T]) once(t *testing.T) {
	p := s.Open(t)
	tk := task("job", "sink", 1, 1)
	cs := s.output(t, p, tk, s.Values...)
	if len(cs) == 0 {
		t.Fatal("records were prepared and there is nothing to commit")
	}
	s.visible(t, p, "before the commit")
	s.commit(t, s.committer(t, p, tk), cs, connector.Committed)
	s.visible(t, p, "after the commit", s.Values...)
	s.commit(t, s.committer(t, p, tk), cs, connector.AlreadyCommitted)
	s.commit(t, s.committer(t, p, task("job", "sink", 0, 7)), cs, connector.AlreadyCommitted)
	s.visible(t, p, "after more commits", s.Values...)
}

func (s Sink[T]) partial(t *testing.T) {
	p := s.Open(t)
	var cs []connector.Committable
	for i := range 3 {
		cs = append(cs, s.output(t, p, task("job", "sink", i, 1), s.Values[2*i:2*i+2]...)...)
	}
	c := s.committer(t, p, task("job", "sink", 0, 1))
	s.commit(t, c, cs[:1], connector.Committed)
	s.visible(t, p, "cut short", s.Values[:2]...)
	want := slices.Repeat([]connector.CommitResult{connector.Committed}, len(cs))
	want[0] = connector.AlreadyCommitted
	s.commit(t, c, cs, want...)
	s.visible(t, p, "completed", s.Values[:6]...)
}

func (s Sink[T]) several(t *testing.T) {
	p := s.Open(t)
	tk := task("job", "sink", 0, 1)
	w := s.writer(t, p, tk)
	s.write(t, w, s.Values[:2]...)
	first := s.prepare(t, w, 1)
	s.write(t, w, s.Values[2:4]...)
	second := s.prepare(t, w, 2)
	s.write(t, w, s.Values[4])
	c := s.committer(t, p, tk)
	s.commit(t, c, first, connector.Committed)
	s.visible(t, p, "the first checkpoint", s.Values[:2]...)
	s.commit(t, c, second, connector.Committed)
	s.visible(t, p, "the second checkpoint", s.Values[:4]...)
	if err := w.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := s.prepare(t, w, 3)
	s.close(t, w)
	s.commit(t, c, third, connector.Committed)
	s.visible(t, p, "the end", s.Values[:5]...)
}

// twins is a commit by a process that is believed dead at the same time as that of its successor.
func (s Sink[T]) twins(t *testing.T) {
	p := s.Open(t)
	var cs []connector.Committable
	for i := range 6 {
		cs = append(cs, s.output(t, p, task("job", "sink", i, 1), s.Values[i])...)
	}
	var mu struct {
		sync.Mutex
		committed int
	}
	g := run.NewGroup(t.Context(), "twins")
	for range 4 {
		c := s.committer(t, p, task("job", "sink", 0, 1))
		g.Go("commit", func(ctx context.Context) error {
			results, err := c.Commit(ctx, cs)
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				switch r {
				case connector.Committed:
					mu.committed++
				case connector.AlreadyCommitted, connector.RetryLater:
				case connector.Lost:
					err = errors.Join(err, errors.New("output is reported lost"))
				}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	s.visible(t, p, "after four commits at once", s.Values[:6]...)
	if mu.committed < len(cs) {
		t.Errorf("%d of %d were committed by somebody", mu.committed, len(cs))
	}
}

func (s Sink[T]) aborted(t *testing.T) {
	p := s.Open(t)
	tk := task("job", "sink", 0, 1)
	cs := s.output(t, p, tk, s.Values...)
	c := s.committer(t, p, tk)
	for range 2 {
		if err := c.Abort(t.Context(), cs); err != nil {
			t.Fatal(err)
		}
	}
	s.commit(t, c, cs, connector.Lost)
	s.visible(t, p, "aborted")
	s.clean(t, p)
}

func (s Sink[T]) clean(t *testing.T, p Place[T]) {
	t.Helper()
	if p.Leftovers != nil {
		if n := p.Leftovers(t); n != 0 {
			t.Errorf("%d leftovers", n)
		}
	}
}

func (s Sink[T]) late(t *testing.T) {
	p := s.Open(t)
	tk := task("job", "sink", 0, 1)
	cs := s.output(t, p, tk, s.Values...)
	c := s.committer(t, p, tk)
	s.commit(t, c, cs, connector.Committed)
	if err := c.Abort(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if err := s.committer(t, p, task("job", "sink", 0, 9)).AbortUnknown(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.visible(t, p, "an abort after the commit", s.Values...)
	s.commit(t, c, cs, connector.AlreadyCommitted)
}

func (s Sink[T]) discarded(t *testing.T) {
	p := s.Open(t)
	w := s.writer(t, p, task("job", "sink", 0, 1))
	s.write(t, w, s.Values...)
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.close(t, w)
	s.visible(t, p, "never prepared")
	s.clean(t, p)
}

func (s Sink[T]) leftovers(t *testing.T) {
	p := s.Open(t)
	untouched := func(testing.TB) {}
	if p.Litter != nil {
		untouched = p.Litter(t)
	}
	s.output(t, p, task("job", "sink", 0, 1), s.Values[0])
	kept := s.output(t, p, task("job", "sink", 1, 1), s.Values[1])
	current := s.output(t, p, task("job", "sink", 0, 2), s.Values[2])
	higher := s.output(t, p, task("job", "sink", 0, 3), s.Values[3])
	other := s.output(t, p, task("job", "other", 0, 1), s.Values[4])
	foreign := s.output(t, p, task("else", "sink", 0, 1), s.Values[5])
	if err := s.committer(t, p, task("job", "sink", 0, 2)).AbortUnknown(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if p.Leftovers != nil {
		if n := p.Leftovers(t); n != 5 {
			t.Errorf("%d things are left; of six outputs one was a leftover", n)
		}
	}
	for _, live := range []struct {
		job, sink string
		cs        []connector.Committable
	}{{"job", "sink", kept}, {"job", "sink", current}, {"job", "sink", higher}, {"job", "other", other}, {"else", "sink", foreign}} {
		s.commit(t, s.committer(t, p, task(live.job, live.sink, 0, 3)), live.cs, connector.Committed)
	}
	s.visible(t, p, "what was no leftover", s.Values[1:6]...)
	untouched(t)
}

func (s Sink[T]) shared(t *testing.T) {
	p := s.Open(t)
	untouched := func(testing.TB) {}
	if p.Litter != nil {
		untouched = p.Litter(t)
	}
	one := s.output(t, p, task("one", "sink", 0, 1), s.Values[:2]...)
	two := s.output(t, p, task("two", "sink", 0, 1), s.Values[2:4]...)
	other := s.output(t, p, task("one", "other", 0, 1), s.Values[4:6]...)
	c := s.committer(t, p, task("one", "sink", 0, 1))
	s.commit(t, c, one, connector.Committed)
	if err := errors.Join(c.Abort(t.Context(), one), c.AbortUnknown(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	s.commit(t, s.committer(t, p, task("two", "sink", 0, 1)), two, connector.Committed)
	s.commit(t, s.committer(t, p, task("one", "other", 0, 1)), other, connector.Committed)
	s.visible(t, p, "side by side", s.Values[:6]...)
	untouched(t)
	s.clean(t, p)
}

func (s Sink[T]) empty(t *testing.T) {
	p := s.Open(t)
	tk := task("job", "sink", 0, 1)
	cs := s.output(t, p, tk)
	c := s.committer(t, p, tk)
	s.commit(t, c, cs, connector.Committed)
	s.commit(t, c, nil)
	s.visible(t, p, "nothing")
}
