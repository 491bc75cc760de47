package taskpb

import (
	"strings"
	"testing"
)

func TestNonsenseAboutTimeIsRefused(t *testing.T) {
	sample := func(c *Clock) *TaskMessage {
		return &TaskMessage{Message: &TaskMessage_Sample{Sample: &Sample{Clocks: []*Clock{c}}}}
	}
	long := strings.Repeat("x", maxName+1)
	for name, m := range map[string]interface{ Validate() error }{
		"no clock":           sample(nil),
		"no attempt":         sample(&Clock{}),
		"no input":           sample(&Clock{Attempt: 1, Inputs: []*InputClock{nil}}),
		"a negative channel": sample(&Clock{Attempt: 1, Inputs: []*InputClock{{From: -2}}}),
		"a nameless holder":  sample(&Clock{Attempt: 1, Held: []*HeldClock{{}}}),
		"too many splits":    sample(&Clock{Attempt: 1, Source: &SourceClock{Splits: make([]*SplitClock, MaxClockSplits+1)}}),
		"a long split":       sample(&Clock{Attempt: 1, Source: &SourceClock{Splits: []*SplitClock{{Id: long}}}}),
		"a negative drift":   sample(&Clock{Attempt: 1, Source: &SourceClock{MaxDriftUs: -1}}),
		"a long group":       sample(&Clock{Attempt: 1, Source: &SourceClock{Group: long}}),
		"a nameless group":   &TaskMessage{Message: &TaskMessage_Sample{Sample: &Sample{Groups: []*GroupClock{{}}}}},
		"too many groups":    &TaskMessage{Message: &TaskMessage_Sample{Sample: &Sample{Groups: make([]*GroupClock, MaxGroups+1)}}},
		"groups of no job":   &AgentMessage{Message: &AgentMessage_GroupClocks{GroupClocks: &GroupClocks{}}},
		"nothing of groups":  &AgentMessage{Message: &AgentMessage_GroupClocks{}},
	} {
		if err := m.Validate(); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
	for _, m := range []interface{ Validate() error }{
		sample(&Clock{Attempt: 1, Inputs: []*InputClock{{From: -1}}, Held: []*HeldClock{{Operator: "calls"}}}),
		sample(&Clock{Attempt: 1, Source: &SourceClock{Splits: []*SplitClock{{Id: "3"}}}}),
		&AgentMessage{Message: &AgentMessage_GroupClocks{GroupClocks: &GroupClocks{Job: "j", Groups: []*GroupClock{{Group: "g"}}}}},
	} {
		if err := m.Validate(); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
}
