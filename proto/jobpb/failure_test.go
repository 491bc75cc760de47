package jobpb

import (
	"strings"
	"testing"
)

func TestAJobThatFailsAtOneRecordOnEveryAttemptIsKnown(t *testing.T) {
	attempt := uint32(0)
	at := func(position string) *Failure {
		attempt++
		return &Failure{Kind: FailureKind_FAILURE_USER, Code: "E051", Operator: "parse", Position: position, Attempt: attempt}
	}
	once := at("line 7")
	explained := at("line 7")
	explained.Attempt, explained.Message = once.Attempt, "not restarted"
	lost := &Failure{Kind: FailureKind_FAILURE_LOSS, Code: "E110"}
	other := at("line 7")
	other.Operator = "sink"
	for name, c := range map[string]struct {
		failures []*Failure
		want     int
	}{
		"none":             {nil, 0},
		"one":              {[]*Failure{at("line 7")}, 0},
		"the same":         {[]*Failure{at("line 7"), at("line 7"), at("line 7")}, 3},
		"losses between":   {[]*Failure{at("line 7"), lost, at("line 7"), lost}, 2},
		"another record":   {[]*Failure{at("line 6"), at("line 7"), at("line 7")}, 0},
		"another operator": {[]*Failure{other, at("line 7")}, 0},
		"no record":        {[]*Failure{at(""), at("")}, 0},
		"one, explained":   {[]*Failure{once, explained}, 0},
		"two, explained":   {[]*Failure{at("line 7"), once, explained}, 2},
		"losses alone":     {[]*Failure{lost, lost}, 0},
	} {
		if got := SameRecord(c.failures); got != c.want {
			t.Errorf("%s: %d times, want %d", name, got, c.want)
		}
	}
}

func TestUserCountersAreBounded(t *testing.T) {
	good := &UserCounter{Operator: "parse", Name: "empty lines", Value: 3}
	long := &UserCounter{Operator: "parse", Name: strings.Repeat("x", MaxName+1)}
	many := &Counters{}
	for range MaxUserCounters + 1 {
		many.User = append(many.User, good)
	}
	if err := (&Counters{User: []*UserCounter{good}}).Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]*Counters{
		"too many": many, "a long name": {User: []*UserCounter{long}}, "no name": {User: []*UserCounter{{Operator: "parse"}}}, "nothing": {User: []*UserCounter{nil}},
	} {
		if c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
