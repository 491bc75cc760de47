package shuffle

import "testing"

func TestARequestIsAdmittedByWhatKindOfResultItAsksFor(t *testing.T) {
	for _, c := range []struct {
		result Result
		p      Progress
		reads  int
		want   Reason
	}{
		{Pipelined(), Producing, 0, none},
		{Pipelined(), Finished, 0, none},
		{Pipelined(), Producing, 1, Gone}, // what was read is gone
		{Blocking(), Producing, 0, notYet},
		{Blocking(), Finished, 0, none},
		{Blocking(), Finished, 5, none},
		{Result{WhenFinished, Once}, Producing, 1, notYet},
		{Result{WhenFinished, Once}, Finished, 1, Gone},
		{Result{WhileProduced, Again}, Producing, 3, none},
	} {
		if got := c.result.admit(c.p, c.reads); got != c.want {
			t.Errorf("%+v at %d after %d reads: %v, want %v", c.result, c.p, c.reads, got, c.want)
		}
	}
	if !Pipelined().JoinsRegion() || Blocking().JoinsRegion() {
		t.Error("only a pipelined result joins its producer and consumer into a region")
	}
}
