package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/schedule"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// pipe is a stream whose other end is the test. It ends when its handler returns, as gRPC's do.
type pipe struct {
	grpc.ServerStream
	ctx  context.Context
	up   chan *controlpb.WorkerMessage
	down chan *controlpb.CoordinatorMessage
}

func (p *pipe) Context() context.Context { return p.ctx }

func (p *pipe) Recv() (*controlpb.WorkerMessage, error) {
	select {
	case m, ok := <-p.up:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func (p *pipe) Send(m *controlpb.CoordinatorMessage) error {
	select {
	case p.down <- m:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// desk is a Book with a scheduler that writes down what it hears.
type desk struct {
	t     *testing.T
	book  *Book
	group *run.Group
	facts *state.State
	index uint64

	mu struct {
		sync.Mutex
		heard []string
	}
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, facts: state.New(), group: run.NewGroup(t.Context(), "desk")}
	d.book = NewBook(Config{
		Term: 7, ProtocolMin: 2, ProtocolMax: 3, BuildLimit: 30 * time.Second, Log: hclog.NewNullLogger(), Facts: d.facts.View,
		Post: func(e schedule.Event, _ <-chan struct{}) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.mu.heard = append(d.mu.heard, strings.TrimPrefix(fmt.Sprintf("%T", e), "event."))
		},
	})
	t.Cleanup(func() {
		if err := errors.Join(d.book.End(), d.group.Wait()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *desk) heard() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.heard)
}

func (d *desk) know(worker string, w *commandpb.Worker) {
	w.Id, w.Incarnation, w.Address, w.DataAddress, w.Slots, w.ProtocolMin, w.ProtocolMax = worker, 1, "a:1", "a:2", 1, 2, 3
	d.index++
	r := d.facts.Apply(d.index, 7, &commandpb.Command{Version: state.Version, Command: &commandpb.Command_RegisterWorker{
		RegisterWorker: &commandpb.RegisterWorker{Worker: w},
	}})
	if r.Status != state.Applied {
		d.t.Fatalf("register: %v", r)
	}
}

func registration(worker string, incarnation uint64) *controlpb.Register {
	return &controlpb.Register{
		Worker: worker, Incarnation: incarnation, Address: "a:1", DataAddress: "a:2", Slots: 1, ProtocolMin: 1, ProtocolMax: 2, Os: "linux", Arch: "amd64",
	}
}

// open runs the handler of a stream; its outcome comes through the channel.
func (d *desk) open(first *controlpb.WorkerMessage) (*pipe, <-chan error) {
	ctx, cancel := context.WithCancel(d.t.Context())
	p := &pipe{ctx: ctx, up: make(chan *controlpb.WorkerMessage), down: make(chan *controlpb.CoordinatorMessage)}
	outcome := make(chan error, 1)
	d.group.Go("handler", func(context.Context) error {
		defer cancel()
		in, err := Receive(d.group, p)
		if err == nil {
			err = d.book.Serve(in)
		}
		outcome <- err
		return nil
	})
	if first != nil {
		p.say(first)
	}
	return p, outcome
}

func (p *pipe) say(m *controlpb.WorkerMessage) {
	select {
	case p.up <- m:
	case <-p.ctx.Done():
	}
}

func hello(r *controlpb.Register) *controlpb.WorkerMessage {
	return &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Register{Register: r}}
}

func ack(sequence uint64) *controlpb.CoordinatorMessage {
	return &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Ack{Ack: &controlpb.Ack{Sequence: sequence}}}
}

func TestWorkerThatDoesNotReadLosesItsSessionAndNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		_, slow := d.open(hello(registration("slow", 1)))
		good, _ := d.open(hello(registration("good", 1)))
		synctest.Wait()
		start := time.Now()
		for i := range uint64(outboxSize + 2) {
			d.book.Send("slow", 1, ack(i))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("sending took %s", took)
		}
		if err := <-slow; !errors.Is(err, ErrSlow) {
			t.Errorf("the session ended with %v", err)
		}
		if _, ok := d.book.Heard("slow"); ok {
			t.Error("the session is still there")
		}
		d.book.Send("good", 1, ack(1))
		if m := <-good.down; m.Term != 7 || m.GetAck().Sequence != 1 {
			t.Errorf("the other worker hears %v", m)
		}
		if heard := d.heard(); !slices.Equal(heard, []string{"Attached", "Attached", "Detached"}) {
			t.Errorf("the scheduler heard %v", heard)
		}
	})
}

func TestHeartbeatsAreAnsweredWithWhatIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		p, _ := d.open(hello(registration("w", 1)))
		synctest.Wait()
		// The welcome comes first, whatever the worker says before it.
		p.say(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: &controlpb.Heartbeat{Sequence: 8}}})
		synctest.Wait()
		d.book.Send("w", 1, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Welcome{Welcome: &controlpb.Welcome{}}})
		if m := <-p.down; m.GetWelcome() == nil {
			t.Errorf("the first message is %v", m)
		}
		d.book.Send("w", 1, ack(5))
		<-p.down
		<-time.After(2 * time.Second)
		if age, ok := d.book.Heard("w"); !ok || age != 2*time.Second {
			t.Errorf("heard %s ago, %t", age, ok)
		}
		p.say(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: &controlpb.Heartbeat{Sequence: 9, Samples: []*controlpb.ProcessSample{
			{Job: "j", Process: 1, Sample: &taskpb.Sample{HeapBytes: 3}},
		}}}})
		if a := (<-p.down).GetAck(); a.GetSequence() != 5 || a.GetHeartbeat() != 9 {
			t.Errorf("the heartbeat is answered with %v", a)
		}
		d.book.Send("w", 1, ack(6))
		if a := (<-p.down).GetAck(); a.GetSequence() != 6 || a.GetHeartbeat() != 9 {
			t.Errorf("acknowledged with %v", a)
		}
		if s := d.book.Samples(); len(s) != 1 || s[0].Sample.HeapBytes != 3 {
			t.Errorf("samples %v", s)
		}
		if age, _ := d.book.Heard("w"); age != 0 {
			t.Errorf("heard %s ago", age)
		}
		d.book.Send("w", 2, ack(7)) // another incarnation
		d.book.Send("x", 1, ack(7)) // nobody
		synctest.Wait()
		select {
		case m := <-p.down:
			t.Errorf("a message for another one arrived: %v", m)
		default:
		}
	})
}

// The sources of a job read together although they are in several processes: each hears, with the answer to its heartbeat, where
// the others stand.
func TestAHeartbeatIsAnsweredWithWhereTheOthersStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		beat := func(p *pipe, process uint64, groups ...*taskpb.GroupClock) {
			p.say(&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: &controlpb.Heartbeat{Sequence: 1, Samples: []*controlpb.ProcessSample{
				{Job: "j", Process: process, Sample: &taskpb.Sample{Groups: groups}},
			}}}})
		}
		open := func(worker string) *pipe {
			p, _ := d.open(hello(registration(worker, 1)))
			synctest.Wait()
			d.book.Send(worker, 1, &controlpb.CoordinatorMessage{Message: &controlpb.CoordinatorMessage_Welcome{Welcome: &controlpb.Welcome{}}})
			<-p.down
			return p
		}
		first, second := open("w1"), open("w2")
		beat(first, 1, &taskpb.GroupClock{Group: "bids", WatermarkUs: 30})
		if m := <-first.down; m.GetAck() == nil {
			t.Errorf("a heartbeat is answered with %v", m)
		}
		if g := (<-first.down).GetGroupClocks(); g.GetProcess() != 1 || len(g.Groups) != 0 {
			t.Errorf("alone it hears %v", g)
		}
		beat(second, 2, &taskpb.GroupClock{Group: "bids", WatermarkUs: 50})
		<-second.down
		m := <-second.down
		if g := m.GetGroupClocks(); m.Term != 7 || g.GetProcess() != 2 || len(g.Groups) != 1 || g.Groups[0].WatermarkUs != 30 {
			t.Errorf("the second one hears %v", m)
		}
		beat(second, 2)
		if m := <-second.down; m.GetAck() == nil {
			t.Errorf("without a group it hears %v", m)
		}
	})
}

func TestSecondSessionReplacesTheFirstInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		_, first := d.open(hello(registration("w", 2)))
		synctest.Wait()
		_, older := d.open(hello(registration("w", 1)))
		if err := <-older; err == nil || !strings.Contains(err.Error(), "incarnation 1") {
			t.Errorf("an older incarnation: %v", err)
		}
		_, second := d.open(hello(registration("w", 3)))
		if err := <-first; !errors.Is(err, ErrReplaced) {
			t.Errorf("the first session ended with %v", err)
		}
		if heard := d.heard(); !slices.Equal(heard, []string{"Attached", "Detached", "Attached"}) {
			t.Errorf("the scheduler heard %v", heard)
		}
		d.book.Drop("w", 3, "no longer wanted")
		if err := <-second; err == nil || err.Error() != "no longer wanted" {
			t.Errorf("dropped with %v", err)
		}
	})
}

func TestWorkersThatCannotBeServedAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		newer, foreign, broken := registration("w", 1), registration("w", 1), registration("w", 1)
		newer.TermSeen, foreign.ProtocolMin, foreign.ProtocolMax, broken.Address = 8, 4, 9, ""
		for name, c := range map[string]struct {
			first *controlpb.WorkerMessage
			check func(error) bool
		}{
			"newer term":   {hello(newer), func(err error) bool { return errors.Is(err, ErrOver) }},
			"protocol":     {hello(foreign), func(err error) bool { return strings.Contains(err.Error(), "task protocols 4 to 9") }},
			"invalid":      {hello(broken), func(err error) bool { return strings.Contains(err.Error(), "address: empty") }},
			"not at first": {&controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_Heartbeat{Heartbeat: &controlpb.Heartbeat{}}}, func(err error) bool { return strings.Contains(err.Error(), "not a registration") }},
			"silent":       {nil, func(err error) bool { return strings.Contains(err.Error(), "no registration within") }},
		} {
			if _, outcome := d.open(c.first); true {
				if err := <-outcome; err == nil || !c.check(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		// In the middle of a session, too.
		for name, m := range map[string]*controlpb.WorkerMessage{
			"second registration": hello(registration("w", 1)),
			"empty":               {},
			"report without fact": {Message: &controlpb.WorkerMessage_Report{Report: &controlpb.Report{Job: "j"}}},
		} {
			p, outcome := d.open(hello(registration("w", 1)))
			p.say(m)
			if err := <-outcome; err == nil || !strings.Contains(err.Error(), "invalid message") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestEndClosesEverySessionAndTakesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		_, a := d.open(hello(registration("a", 1)))
		_, b := d.open(hello(registration("b", 1)))
		synctest.Wait()
		if err := d.book.End(); err != nil {
			t.Fatal(err)
		}
		// End has waited: the scheduler has heard everything by now.
		if heard := d.heard(); !slices.Equal(heard, []string{"Attached", "Attached", "Detached", "Detached"}) {
			t.Errorf("the scheduler heard %v", heard)
		}
		_, late := d.open(hello(registration("c", 1)))
		for _, outcome := range []<-chan error{a, b, late} {
			if err := <-outcome; !errors.Is(err, ErrOver) {
				t.Errorf("ended with %v", err)
			}
		}
	})
}

func TestDryRunSurvivesTheLossOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		spec := &jobpb.JobSpec{Name: "j", Artifact: strings.Repeat("a", 64)}
		_, err := d.book.Build(t.Context(), spec)
		if detail := refusalCode(err); detail != "E078" {
			t.Errorf("without a worker: %v", err)
		}
		d.know("w1", &commandpb.Worker{Os: "linux", Arch: "amd64"})
		d.know("w2", &commandpb.Worker{Os: "linux", Arch: "amd64"})
		p1, _ := d.open(hello(registration("w1", 1)))
		p2, _ := d.open(hello(registration("w2", 1)))
		synctest.Wait()
		type answer struct {
			result *controlpb.BuildResult
			err    error
		}
		answers := make(chan answer, 1)
		build := func() {
			d.group.Go("build", func(context.Context) error {
				r, err := d.book.Build(t.Context(), spec)
				answers <- answer{r, err}
				return nil
			})
		}
		build()
		// Whoever is asked first disappears; the other one answers.
		first, second := p1, p2
		var asked *controlpb.CoordinatorMessage
		select {
		case asked = <-p1.down:
		case asked = <-p2.down:
			first, second = p2, p1
		}
		if b := asked.GetBuild(); b == nil || b.Job != "" || b.TimeLimitUs != 30_000_000 {
			t.Fatalf("asked %v", asked)
		}
		close(first.up)
		again := (<-second.down).GetBuild()
		second.say(result(again.Build+1, 2)) // for nobody
		second.say(result(again.Build, 2))
		if a := <-answers; a.err != nil || a.result.Built.GetGraph().GetName() != "g" {
			t.Fatalf("answer %v, %v", a.result, a.err)
		}
		// A runtime outside of the window is a failure with a code.
		build()
		second.say(result((<-second.down).GetBuild().Build, 9))
		if a := <-answers; a.err != nil || a.result.Failure.GetCode() != "E045" || a.result.Built != nil {
			t.Errorf("answer %v, %v", a.result, a.err)
		}
		// A worker that never answers.
		build()
		slow := (<-second.down).GetBuild().GetBuild()
		if a := <-answers; refusalCode(a.err) != "E078" {
			t.Errorf("no answer: %v, %v", a.result, a.err)
		}
		if m := <-second.down; m.GetAbandonBuild().GetBuild() != slow {
			t.Errorf("the worker was told %v, not to abandon build %d", m, slow)
		}
		// A client that leaves.
		ctx, leave := context.WithCancel(t.Context())
		d.group.Go("build", func(context.Context) error {
			r, err := d.book.Build(ctx, spec)
			answers <- answer{r, err}
			return nil
		})
		unwanted := (<-second.down).GetBuild().GetBuild()
		leave()
		if a := <-answers; !errors.Is(a.err, context.Canceled) {
			t.Errorf("answer %v, %v", a.result, a.err)
		}
		if m := <-second.down; m.GetAbandonBuild().GetBuild() != unwanted {
			t.Errorf("the worker was told %v, not to abandon build %d", m, unwanted)
		}
		// The reign ends in the middle.
		build()
		<-second.down
		if err := d.book.End(); err != nil {
			t.Fatal(err)
		}
		if a := <-answers; a.err == nil {
			t.Errorf("after the end: %v", a.result)
		}
		if heard := d.heard(); slices.Contains(heard, "Built") {
			t.Errorf("the scheduler heard of a dry run: %v", heard)
		}
	})
}

func result(build uint64, protocol int32) *controlpb.WorkerMessage {
	return &controlpb.WorkerMessage{Message: &controlpb.WorkerMessage_BuildResult{BuildResult: &controlpb.BuildResult{
		Build: build, Protocol: protocol, Built: &taskpb.Built{Graph: &jobpb.Graph{Name: "g"}},
	}}}
}

func refusalCode(err error) string {
	var r *api.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}
