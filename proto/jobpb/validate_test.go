package jobpb

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

func validPlan() *Plan {
	return &Plan{
		Graph: &Graph{Name: "g", Operators: []*Operator{
			{Id: "in", Kind: "source"},
			{Id: "out", Kind: "sink", Inputs: []*Input{{Operator: 0, Partitioner: Partitioner_PARTITIONER_HASH}}},
		}},
		Chains: []*Chain{{Index: 0, Operators: []int32{0}, Parallelism: 2}, {Index: 1, Operators: []int32{1}, Parallelism: 2}},
		Edges: []*Edge{{FromOperator: 0, ToOperator: 1, FromChain: 0, ToChain: 1, Partitioner: Partitioner_PARTITIONER_HASH,
			Exchange: ExchangeKind_EXCHANGE_PIPELINED}},
		Regions: []*Region{{Subtasks: []*SubtaskRange{{Chain: 0, Count: 2}, {Chain: 1, Count: 2}}}},
	}
}

func TestPlanThatIsNotWholeIsRefused(t *testing.T) {
	if err := validPlan().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Plan)
		text   string
	}{
		"no graph":               {func(p *Plan) { p.Graph = nil }, "graph"},
		"operator in no chain":   {func(p *Plan) { p.Chains = p.Chains[:1] }, "chains"},
		"operator in two chains": {func(p *Plan) { p.Chains[1].Operators = []int32{1, 0} }, "chains[1]"},
		"operator that is not":   {func(p *Plan) { p.Chains[1].Operators = []int32{7} }, "chains[1]"},
		"empty chain":            {func(p *Plan) { p.Chains[1].Operators = nil }, "chains[1]"},
		"chains out of order":    {func(p *Plan) { p.Chains[1].Index = 0 }, "chains[1]"},
		"no parallelism":         {func(p *Plan) { p.Chains[0].Parallelism = 0 }, "parallelism"},
		"too much parallelism":   {func(p *Plan) { p.Chains[0].Parallelism = MaxParallelism + 1 }, "parallelism"},
		"id twice":               {func(p *Plan) { p.Graph.Operators[1].Id = "in" }, "used twice"},
		"two slot groups": {func(p *Plan) {
			p.Chains = p.Chains[:1]
			p.Chains[0].Operators = []int32{0, 1}
			p.Graph.Operators[1].SlotGroup = "x"
		}, "slot groups"},
		"edge of another chain": {func(p *Plan) { p.Edges[0].FromChain = 1 }, "edges[0]"},
		"edge of no chain":      {func(p *Plan) { p.Edges[0].ToChain = 9 }, "edges[0]"},
		"edge that is no input": {func(p *Plan) { p.Edges[0].Input = 1 }, "edges[0]"},
		"undecided exchange":    {func(p *Plan) { p.Edges[0].Exchange = ExchangeKind_EXCHANGE_AUTO }, "not decided"},
		"forward across widths": {func(p *Plan) {
			p.Edges[0].Partitioner = 0
			p.Chains[1].Parallelism = 3
			p.Regions[0].Subtasks[1].Count = 3
		}, "forward"},
		"subtask in no region":                {func(p *Plan) { p.Regions[0].Subtasks = p.Regions[0].Subtasks[:1] }, "in no region"},
		"subtask in two regions":              {func(p *Plan) { p.Regions = append(p.Regions, &Region{Index: 1, Subtasks: []*SubtaskRange{{Count: 1}}}) }, "two regions"},
		"range past the end":                  {func(p *Plan) { p.Regions[0].Subtasks[0].Count = 3 }, "do not exist"},
		"range that overflows":                {func(p *Plan) { p.Regions[0].Subtasks[0].First = 1<<31 - 1 }, "do not exist"},
		"region that stores a pipelined edge": {func(p *Plan) { p.Regions[0].InputEdges = []int32{0} }, "input edge 0"},
		"region that reads no edge":           {func(p *Plan) { p.Regions[0].InputEdges = []int32{7} }, "input edge 7"},
		"forward reference":                   {func(p *Plan) { p.Graph.Operators[1].Inputs[0].Operator = 1 }, "before this one"},
		"name that is not UTF-8":              {func(p *Plan) { p.Graph.Name = "\xff" }, "UTF-8"},
		"negative phase":                      {func(p *Plan) { p.Graph.Operators[1].Inputs[0].Phase = -1 }, "phase"},
		"reason that is not UTF-8":            {func(p *Plan) { p.Graph.Operators[1].Inputs[0].Why = "\xff" }, "UTF-8"},
		"place of the mode that is not UTF-8": {func(p *Plan) { p.Graph.ModeLocation = "\xff" }, "UTF-8"},
		"unknown partitioner":                 {func(p *Plan) { p.Graph.Operators[1].Inputs[0].Partitioner = 99 }, "partitioner"},
	} {
		p := proto.CloneOf(validPlan())
		c.change(p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if (*Plan)(nil).Validate() == nil || (*Graph)(nil).Validate() == nil || (*JobSpec)(nil).Validate() == nil || (*Split)(nil).Validate() == nil || (*Committable)(nil).Validate() == nil {
		t.Error("a missing message is valid")
	}
}

func TestSpecsOfClientsAreChecked(t *testing.T) {
	good := func() *JobSpec { return &JobSpec{Name: "n", Artifact: strings.Repeat("ab", 32)} }
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*JobSpec){
		"no artifact":          func(s *JobSpec) { s.Artifact = "" },
		"a path as artifact":   func(s *JobSpec) { s.Artifact = "../" + strings.Repeat("a", 61) },
		"upper-case digest":    func(s *JobSpec) { s.Artifact = strings.Repeat("AB", 32) },
		"long name":            func(s *JobSpec) { s.Name = strings.Repeat("n", MaxName+1) },
		"negative parallelism": func(s *JobSpec) { s.Parallelism = -1 },
		"long parameter":       func(s *JobSpec) { s.Params = map[string]string{"k": strings.Repeat("v", MaxParamBytes+1)} },
		"parameter no UTF-8":   func(s *JobSpec) { s.Settings = map[string]string{"k": "\xff"} },
	} {
		s := good()
		change(s)
		if s.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestWhatIsSaidOfAStoredResultIsChecked(t *testing.T) {
	good := func() *Partition {
		return &Partition{State: PartitionState_PARTITION_STORED, Digest: make([]byte, DigestBytes), Attempt: 1, RegionEpoch: 1}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Partition){
		"negative edge": func(p *Partition) { p.Edge = -1 }, "negative length": func(p *Partition) { p.Bytes = -1 },
		"negative count": func(p *Partition) { p.Records = -1 }, "no attempt": func(p *Partition) { p.Attempt = 0 },
		"no state": func(p *Partition) { p.State = 0 }, "unknown state": func(p *Partition) { p.State = 9 },
		"short digest": func(p *Partition) { p.Digest = p.Digest[1:] },
	} {
		p := good()
		change(p)
		if p.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if (*Partition)(nil).Validate() == nil {
		t.Error("nothing is taken")
	}
}

func TestBoundedFailureFitsAndSaysWhatItCan(t *testing.T) {
	small := &Failure{Code: "E050", Message: "ok"}
	if small.Bounded() != small || (*Failure)(nil).Bounded() != nil {
		t.Error("a failure that fits is copied")
	}
	huge := &Failure{
		Code: "E050", Message: strings.Repeat("ä", MaxText), Operator: "o\xff", Stack: strings.Repeat("s", 2*MaxStack), Position: "p",
		Kind: FailureKind_FAILURE_USER, Attempt: 3, Chain: 1, Index: 2, TimeUs: 4, Worker: "w",
		Lost: slices.Repeat([]*PartitionRef{{Edge: 1, Attempt: 1}}, MaxLost+1),
	}
	b := huge.Bounded()
	if b.Bounded() != b {
		t.Error("a bounded failure does not fit")
	}
	if !utf8.ValidString(b.Message) || !strings.HasPrefix(b.Message, "ää") || len(b.Message) < MaxText-4 || len(b.Stack) != MaxStack {
		t.Errorf("%d bytes of message, %d of stack", len(b.Message), len(b.Stack))
	}
	if len(b.Lost) != MaxLost {
		t.Errorf("%d lost results", len(b.Lost))
	}
	b.Message, b.Operator, b.Stack, b.Lost = huge.Message, huge.Operator, huge.Stack, huge.Lost
	if !proto.Equal(b, huge) {
		t.Error("cutting texts changed other fields")
	}
}
