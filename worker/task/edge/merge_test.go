package edge

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/worker/task/chain"
)

// pipe is where a gate's batches come from: what was put in, in order.
type pipe struct{ queue []shuffle.Input[int] }

func (p *pipe) Next() (shuffle.Input[int], bool, error) {
	if len(p.queue) == 0 {
		return shuffle.Input[int]{}, false, nil
	}
	in := p.queue[0]
	p.queue = p.queue[1:]
	return in, true, nil
}

func (p *pipe) Release(shuffle.Input[int]) {}
func (p *pipe) Stats() shuffle.GateStats   { return shuffle.GateStats{} }
func (p *pipe) Close(error)                {}

// ledger is the outlet behind a chain: it notes what is said to it.
type ledger struct{ said []element.Event }

func (o *ledger) Broadcast(ev element.Event) error { o.said = append(o.said, ev); return nil }
func (o *ledger) Flush() error                     { return nil }
func (o *ledger) Pending() bool                    { return false }
func (o *ledger) Stats() chain.OutletStats         { return chain.OutletStats{} }
func (o *ledger) Close(error) error                { return nil }
func (o *ledger) Partition() *jobpb.Partition      { return nil }

// producer is one channel as the subtask that writes to it knows it.
type producer struct {
	gate, channel int
	at            element.Time
	idle, ended   bool
	rested        bool // it has been idle at some time
	stopped       bool // it has ended before the end of its input
}

// junction is a head with its gates, whose channels are written to by hand.
type junction struct {
	t     *rapid.T
	head  *Head
	pipes []*pipe
	from  []*producer
	out   *ledger
	// clock and idle are what was said downstream last.
	clock element.Time
	idle  bool
	over  bool
}

func newJunction(t *rapid.T, outer *testing.T) *junction {
	j := &junction{t: t, out: &ledger{}, clock: element.MinTime}
	rt := chain.NewRuntime(outer.Context(), "op")
	var inputs []Input
	for g := range rapid.IntRange(1, 3).Draw(t, "gates") {
		p := &pipe{}
		subtasks := make([]int32, rapid.IntRange(1, 3).Draw(t, "channels"))
		for c := range subtasks {
			subtasks[c] = int32(c)
			j.from = append(j.from, &producer{gate: g, channel: c, at: element.MinTime})
		}
		joint := Joint{Ctx: rt.Ctx, Runtime: rt, Edge: &jobpb.Edge{}, From: "src", To: "op"}
		push := func(i int) { j.arrive(j.from[i], rt.Cursor.At) }
		inputs = append(inputs, Input{Gate: newGate[int](joint, p, push, subtasks)})
		j.pipes = append(j.pipes, p)
	}
	c := chain.New(rt.Ctx, rt.Cursor, []chain.Node{{ID: "out", Outlet: j.out, Size: 1}}, -1)
	j.head = NewHead(c, inputs, func() {})
	return j
}

// arrive judges a record of p: late are only those of producers that others did not wait for.
func (j *junction) arrive(p *producer, at element.Time) {
	if at <= j.clock && !p.rested {
		j.t.Fatalf("a record of %v at %v, although channel %d of gate %d was never idle and promised %v", at, j.clock, p.channel, p.gate, p.at)
	}
}

func (j *junction) write(p *producer, in shuffle.Input[int]) {
	in.Channel = p.channel
	j.pipes[p.gate].queue = append(j.pipes[p.gate].queue, in)
	for range 100 {
		progress, err := j.head.Step(10)
		if err != nil {
			j.t.Fatal(err)
		}
		if progress.State != chain.Working {
			return
		}
	}
	j.t.Fatal("it does not come to rest")
}

func (j *junction) event(p *producer, ev element.Event) { j.write(p, shuffle.Input[int]{Event: ev}) }

// happen has one producer do something that it may: what it emits is above what it has promised, and nothing follows its end.
func (j *junction) happen(i int, what string) {
	p := j.from[i]
	if p.ended {
		return
	}
	ahead := element.Time(rapid.IntRange(1, 10).Draw(j.t, "ahead"))
	switch what {
	case "record":
		if !p.idle { // it says that it is back before its records are
			b := &element.Batch[int]{}
			b.Append(i, max(p.at, 0)+ahead)
			j.write(p, shuffle.Input[int]{Batch: b})
		}
	case "mark":
		p.at, p.idle = max(p.at, 0)+ahead, false
		j.event(p, element.Event{Kind: element.Watermark, Time: p.at})
	case "rest":
		p.idle, p.rested = true, true
		j.event(p, element.Event{Kind: element.Idle})
	case "back":
		p.idle = false
		j.event(p, element.Event{Kind: element.Watermark, Time: p.at})
	case "stop":
		p.ended, p.stopped = true, true
		j.event(p, element.Event{Kind: element.End, Time: p.at})
	case "end":
		p.ended = true
		j.event(p, element.Event{Kind: element.End, Time: element.MaxTime})
	}
}

// active are the producers that time waits for; live are those that have not ended.
func (j *junction) active() (active, live []*producer) {
	for _, p := range j.from {
		if !p.ended {
			live = append(live, p)
			if !p.idle {
				active = append(active, p)
			}
		}
	}
	return active, live
}

// hear judges what was said downstream because of one thing that happened.
func (j *junction) hear() {
	said := j.out.said
	j.out.said = nil
	active, live := j.active()
	if newest := j.newest(); len(said) == 2 && len(live) == 0 && said[0] == (element.Event{Kind: element.Watermark, Time: newest}) && newest > j.clock {
		j.clock, said = newest, said[1:] // time comes to the newest promise before it ends
	}
	if len(said) > 1 {
		j.t.Fatalf("said %v at once", said)
	}
	for _, ev := range said {
		switch ev.Kind {
		case element.Watermark:
			if len(active) == 0 || ev.Time < j.clock || ev.Time == j.clock && !j.idle {
				j.t.Fatalf("watermark %v after %v with %d active channels", ev.Time, j.clock, len(active))
			}
			j.clock, j.idle = ev.Time, false
		case element.Idle:
			if j.idle {
				j.t.Fatal("idle twice")
			}
			j.idle = true
		case element.End:
			j.ended(ev, live)
		}
	}
	if want := len(active) == 0 && len(live) > 0; want != j.idle && len(live) > 0 {
		j.t.Fatalf("idle is %v with %d active channels of %d", j.idle, len(active), len(live))
	}
	for _, p := range active {
		if !p.rested && j.clock > p.at {
			j.t.Fatalf("the clock is at %v, a channel that was never idle at %v", j.clock, p.at)
		}
	}
}

func (j *junction) ended(ev element.Event, live []*producer) {
	stopped := slices.ContainsFunc(j.from, func(p *producer) bool { return p.stopped })
	if !stopped && j.clock < j.newest() {
		j.t.Fatalf("time ends after %v, and has not come to %v", j.clock, j.newest())
	}
	if j.over || len(live) > 0 || (ev.Time < element.MaxTime) != stopped || ev.Time < j.clock {
		j.t.Fatalf("end %v after %v with %d live channels; one was stopped: %v", ev.Time, j.clock, len(live), stopped)
	}
	j.over = true
}

// newest is the largest watermark of any producer.
func (j *junction) newest() element.Time {
	newest := element.MinTime
	for _, p := range j.from {
		newest = max(newest, p.at)
	}
	return newest
}

// exact is the minimum that the clock has to have while nobody has been idle.
func (j *junction) exact() (element.Time, bool) {
	least := element.MaxTime
	active, _ := j.active()
	for _, p := range active {
		least = min(least, p.at)
	}
	rested := slices.ContainsFunc(j.from, func(p *producer) bool { return p.rested })
	return least, len(active) > 0 && !rested
}

// Over channels and inputs, whoever falls silent, returns or ends in the middle: the clock is the minimum of all while nobody
// rests; it never passes a channel that was never idle, never falls, and says that it rests when everybody does. In the end it
// follows those that are active, and neither an idle channel nor one that has ended holds it or pushes it.
func TestTheClockOfManyChannelsFollowsTheActiveOnes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := newJunction(rt, t)
		for range rapid.IntRange(0, 60).Draw(rt, "happenings") {
			i := rapid.IntRange(0, len(j.from)-1).Draw(rt, "producer")
			j.happen(i, rapid.SampledFrom([]string{"record", "record", "mark", "mark", "mark", "rest", "back", "end", "stop"}).Draw(rt, "what"))
			j.hear()
			if want, ok := j.exact(); ok && j.clock != want {
				rt.Fatalf("the clock is at %v, the minimum is %v", j.clock, want)
			}
		}
		const later = 10_000
		active, live := j.active()
		for _, p := range active {
			p.at = later
			j.event(p, element.Event{Kind: element.Watermark, Time: later})
			j.hear()
		}
		if len(active) > 0 && j.clock != later {
			rt.Fatalf("all active channels are at %d, the clock at %v", later, j.clock)
		}
		for _, p := range live {
			p.ended = true
			j.event(p, element.Event{Kind: element.End, Time: element.MaxTime})
			j.hear()
		}
		if !j.over {
			rt.Fatal("all channels have ended, and nobody was told")
		}
	})
}
