package recovery

import (
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/jobpb"
)

const fatal = jobpb.FailureKind_FAILURE_FATAL

func TestTheGravestFailureIsTheRootAndAmongEqualsTheFirst(t *testing.T) {
	lost := []*jobpb.PartitionRef{{Edge: 1}}
	for name, c := range map[string]struct {
		causes []*jobpb.Failure
		want   string
	}{
		"user before loss":          {[]*jobpb.Failure{{Code: "a", Kind: loss, TimeUs: 1}, {Code: "b", Kind: user, TimeUs: 2}}, "b"},
		"fatal before user":         {[]*jobpb.Failure{{Code: "a", Kind: user, TimeUs: 1}, {Code: "b", Kind: fatal, TimeUs: 2}}, "b"},
		"the first of two":          {[]*jobpb.Failure{{Code: "a", Kind: loss, TimeUs: 2}, {Code: "b", Kind: loss, TimeUs: 1}}, "b"},
		"what lost input is no bug": {[]*jobpb.Failure{{Code: "a", Kind: user, Lost: lost, TimeUs: 1}, {Code: "b", Kind: user, TimeUs: 2}}, "b"},
	} {
		if got := Root(c.causes); got.Code != c.want {
			t.Errorf("%s: %s", name, got.Code)
		}
	}
}

func TestAFailureIsToldWithItsKindAndTime(t *testing.T) {
	f := &jobpb.Failure{Kind: user, Lost: []*jobpb.PartitionRef{{}}}
	if n := Tell(f, 7); n.Kind != loss || n.TimeUs != 7 || f.Kind != user || f.TimeUs != 0 {
		t.Errorf("%v became %v", f, n)
	}
	if n := Tell(&jobpb.Failure{Kind: fatal, TimeUs: 3, Lost: f.Lost}, 7); n.Kind != fatal || n.TimeUs != 3 {
		t.Error(n)
	}
}

func TestAFailureSaysWhyThereIsNoRestart(t *testing.T) {
	if n := Explain(&jobpb.Failure{Kind: user, Message: "it broke\n"}, "enough"); n.Message != "it broke\nnot restarted: enough" {
		t.Error(n.Message)
	}
	if n := Explain(&jobpb.Failure{Kind: fatal, Message: "it broke"}, "enough"); strings.Contains(n.Message, "enough") {
		t.Error("a fatal failure needs no reason:", n.Message)
	}
}
