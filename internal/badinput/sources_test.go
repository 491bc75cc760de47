package badinput

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// sale is a row of a file.
type sale struct {
	Item  string
	Cents int64
}

// A row that cannot be read is what the policy of its source makes of it: a failure with its place, nothing, or a letter with the
// bytes as they stand in the file.
func TestARowThatCannotBeReadFollowsThePolicyOfItsSource(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sales.jsonl")
	rows := `{"Item":"tea","Cents":300}` + "\n" + `{"Item":"milk","Cents":"much"}` + "\n" + `{"Item":"bread","Cents":200}` + "\n"
	if err := os.WriteFile(name, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	build := func(pol flow.ErrorPolicy) func(p *flow.Pipeline) {
		return func(p *flow.Pipeline) {
			p.DeadLetters("letters", drop[flow.DeadLetter]())
			p.From("sales", file.JSON[sale](name)).OnError(pol).To("out", drop[sale]())
		}
	}
	err := try(t, build(flow.Fail))
	if err.Code != "E052" || err.Operator != "sales" || !strings.Contains(err.Position, "sales.jsonl") || !strings.Contains(err.Position, "2") {
		t.Errorf("%+v", err)
	}
	for _, pol := range []flow.ErrorPolicy{flow.Skip, flow.DeadLetters, flow.Retry(2, time.Microsecond, flow.DeadLetters)} {
		out, letters := flowtest.Sink[sale]("out"), flowtest.Sink[flow.DeadLetter]("letters")
		opts, want := []flowtest.Option{out, letters}, 1
		if pol == flow.Skip {
			opts, want = opts[:1], 0 // the plan has no letters
		}
		run(t, build(pol), opts...)
		if len(out.Values()) != 2 || len(letters.Values()) != want {
			t.Fatalf("%s: rows %v, letters %+v", pol, out.Values(), letters.Values())
		}
		for _, l := range letters.Values() {
			if l.Operator != "sales" || !strings.Contains(string(l.Value), "much") || !strings.Contains(l.Position, "sales.jsonl") || l.Error == "" {
				t.Errorf("letter %+v", l)
			}
		}
	}
}

var errAway = errors.New("the service is away")

// A source that cannot be read for a while is read again, as often as its policy says.
func TestASourceThatFailsForAWhileIsReadAgain(t *testing.T) {
	build := func(fails int, pol flow.ErrorPolicy) func(p *flow.Pipeline) {
		left := fails
		return func(p *flow.Pipeline) {
			p.From("in", flow.PollAll(0, func(_ context.Context, off int) ([]int, int, error) {
				switch {
				case off == 3 && left > 0:
					left--
					return nil, off, errAway
				case off == 5:
					return nil, off, io.EOF
				}
				return []int{off}, off + 1, nil
			})).OnError(pol).To("out", drop[int]())
		}
	}
	out := flowtest.Sink[int]("out")
	run(t, build(2, flow.Retry(2, time.Microsecond, flow.Fail)), out, flowtest.Setting("restart", "none"))
	if got := out.Values(); len(got) != 5 {
		t.Errorf("got %v", got)
	}
	for _, pol := range []flow.ErrorPolicy{flow.Fail, flow.Skip, flow.Retry(1, time.Microsecond, flow.Skip)} {
		err := try(t, build(2, pol))
		if err.Code != "E053" || err.Operator != "in" || !strings.Contains(err.Message, "the service is away") {
			t.Errorf("%s: %+v", pol, err)
		}
	}
}
