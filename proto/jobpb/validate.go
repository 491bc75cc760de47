package jobpb

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Bounds of what is accepted from another process.
const (
	MaxName        = 256     // bytes of a name, an id, a code
	MaxText        = 4096    // bytes of a message or a location
	MaxStack       = 16384   // bytes of a stack
	MaxParams      = 1024    // parameters or settings
	MaxParamBytes  = 65536   // bytes of one parameter
	MaxOperators   = 4096    // operators of a graph
	MaxParallelism = 32768   // subtasks of one chain
	MaxSubtasks    = 100_000 // subtasks of a plan
	MaxSplitBytes  = 65536   // data of one split
	MaxCommittable = 65536   // data of one committable
	MaxLost        = 4096    // stored results that one failure names
	DigestBytes    = 32      // of the digest of a stored result, a SHA-256
)

// Validate checks what a client sent. It does not know which settings exist.
func (s *JobSpec) Validate() error {
	if s == nil {
		return errors.New("spec: missing")
	}
	if err := checkText("spec.name", s.Name, MaxName); err != nil {
		return err
	}
	if !IsDigest(s.Artifact) {
		return fmt.Errorf("spec.artifact: %.80q is no sha256 in lower-case hex", s.Artifact)
	}
	if err := checkMap("spec.params", s.Params); err != nil {
		return err
	}
	if err := checkMap("spec.settings", s.Settings); err != nil {
		return err
	}
	if s.Parallelism < 0 || s.Parallelism > MaxParallelism {
		return fmt.Errorf("spec.parallelism: %d is not in 0…%d", s.Parallelism, MaxParallelism)
	}
	return s.Origin.validate()
}

// maxIgnored bounds the operators whose state a job leaves behind.
const maxIgnored = 1000

func (o *Origin) validate() error {
	if o == nil {
		return nil
	}
	if len(o.Ignore) > maxIgnored {
		return fmt.Errorf("spec.origin.ignore: %d operators, at most %d", len(o.Ignore), maxIgnored)
	}
	if o.Job == "" && o.Checkpoint != 0 {
		return errors.New("spec.origin: a checkpoint of no job")
	}
	for _, id := range o.Ignore {
		if err := checkText("spec.origin.ignore", id, MaxName); err != nil {
			return err
		}
	}
	return checkText("spec.origin.job", o.Job, MaxName)
}

// IsDigest reports whether d is a sha256 in lower-case hex.
func IsDigest(d string) bool {
	if len(d) != 64 {
		return false
	}
	for i := range len(d) {
		if c := d[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func checkText(path, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%s: %d bytes, at most %d", path, len(s), most)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", path)
	}
	return nil
}

func checkMap(path string, m map[string]string) error {
	if len(m) > MaxParams {
		return fmt.Errorf("%s: %d entries, at most %d", path, len(m), MaxParams)
	}
	for k, v := range m {
		// The error must not depend on the order of the map: it becomes part of a replicated result.
		if len(k) > MaxName || len(v) > MaxParamBytes || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("%s: an entry is not UTF-8 or has a name above %d or a value above %d bytes", path, MaxName, MaxParamBytes)
		}
	}
	return nil
}

// Validate checks the shape of a graph: everything that code may rely on without looking again. Whether it makes sense
// is the business of package flow/graph.
func (g *Graph) Validate() error {
	if g == nil {
		return errors.New("graph: missing")
	}
	if err := checkText("graph.name", g.Name, MaxName); err != nil {
		return err
	}
	if err := checkText("graph.mode_location", g.ModeLocation, MaxText); err != nil {
		return err
	}
	if n := len(g.Operators); n == 0 || n > MaxOperators {
		return fmt.Errorf("graph.operators: %d, must be 1…%d", n, MaxOperators)
	}
	if _, ok := Mode_name[int32(g.Mode)]; !ok {
		return fmt.Errorf("graph.mode: unknown value %d", g.Mode)
	}
	if g.DefaultParallelism < -1 || g.DefaultParallelism > MaxParallelism || g.MaxParallelism < 0 || g.MaxParallelism > MaxParallelism {
		return fmt.Errorf("graph: parallelism %d or key groups %d out of range", g.DefaultParallelism, g.MaxParallelism)
	}
	if err := errors.Join(checkMap("graph.params", g.Params), checkMap("graph.settings", g.Settings)); err != nil {
		return err
	}
	for i, o := range g.Operators {
		if err := o.validate(i); err != nil {
			return fmt.Errorf("graph.operators[%d]: %w", i, err)
		}
	}
	return nil
}

func (o *Operator) validate(i int) error {
	if o == nil {
		return errors.New("missing")
	}
	for _, t := range []string{o.Id, o.Kind, o.ErrorPolicy, o.SlotGroup} {
		if err := checkText("name", t, MaxName); err != nil {
			return err
		}
	}
	for _, t := range []string{o.Location, o.Detail} {
		if err := checkText("text", t, MaxText); err != nil {
			return err
		}
	}
	if o.Parallelism < -1 || o.Parallelism > MaxParallelism {
		return fmt.Errorf("parallelism: %d is not in -1…%d", o.Parallelism, MaxParallelism)
	}
	if _, ok := Guarantee_name[int32(o.Guarantee)]; !ok {
		return fmt.Errorf("guarantee: unknown value %d", o.Guarantee)
	}
	for j, in := range o.Inputs {
		if in == nil || in.Operator < 0 || int(in.Operator) >= i {
			return fmt.Errorf("inputs[%d]: must name an operator before this one", j)
		}
		if err := in.validate(); err != nil {
			return fmt.Errorf("inputs[%d]: %w", j, err)
		}
	}
	for j, s := range o.States {
		if s == nil {
			return fmt.Errorf("states[%d]: missing", j)
		}
	}
	return nil
}

func (in *Input) validate() error {
	if in.Phase < 0 {
		return fmt.Errorf("phase: %d is negative", in.Phase)
	}
	if err := checkText("port", in.Port, MaxName); err != nil {
		return err
	}
	for _, t := range []string{in.Why, in.Location} {
		if err := checkText("text", t, MaxText); err != nil {
			return err
		}
	}
	return checkEdgeKinds(in.Partitioner, in.Exchange)
}

func checkEdgeKinds(p Partitioner, x ExchangeKind) error {
	if _, ok := Partitioner_name[int32(p)]; !ok {
		return fmt.Errorf("partitioner: unknown value %d", p)
	}
	if _, ok := ExchangeKind_name[int32(x)]; !ok {
		return fmt.Errorf("exchange: unknown value %d", x)
	}
	return nil
}

// Validate checks that a plan is whole: every operator in one chain, every subtask in one region, every edge between
// chains that exist. Code that holds a valid plan indexes it without looking again.
func (p *Plan) Validate() error {
	if p == nil {
		return errors.New("plan: missing")
	}
	if err := p.Graph.Validate(); err != nil {
		return fmt.Errorf("plan.%w", err)
	}
	if err := checkText("plan.fingerprint", p.Fingerprint, MaxName); err != nil {
		return err
	}
	if err := checkMap("plan.settings", p.Settings); err != nil {
		return err
	}
	if err := p.checkChains(); err != nil {
		return fmt.Errorf("plan.chains%w", err)
	}
	if err := p.checkEdges(); err != nil {
		return fmt.Errorf("plan.edges%w", err)
	}
	if err := p.checkRegions(); err != nil {
		return fmt.Errorf("plan.regions%w", err)
	}
	return nil
}

func (p *Plan) checkChains() error {
	seen := make([]bool, len(p.Graph.Operators))
	left, subtasks := len(seen), int64(0)
	ids := make(map[string]bool, len(seen))
	for i, o := range p.Graph.Operators {
		if o.Id == "" || ids[o.Id] {
			return fmt.Errorf(": operator %d has no id, or one that is used twice", i)
		}
		ids[o.Id] = true
	}
	for i, c := range p.Chains {
		if c == nil || c.Index != int32(i) || len(c.Operators) == 0 {
			return fmt.Errorf("[%d]: missing, empty or out of order", i)
		}
		if c.Parallelism < 1 || c.Parallelism > MaxParallelism {
			return fmt.Errorf("[%d]: parallelism %d", i, c.Parallelism)
		}
		subtasks += int64(c.Parallelism)
		for _, o := range c.Operators {
			if o < 0 || int(o) >= len(seen) || seen[o] {
				return fmt.Errorf("[%d]: operator %d does not exist or is in two chains", i, o)
			}
			if p.Graph.Operators[o].SlotGroup != p.Graph.Operators[c.Operators[0]].SlotGroup {
				return fmt.Errorf("[%d]: two slot groups", i)
			}
			seen[o] = true
			left--
		}
	}
	if left != 0 {
		return fmt.Errorf(": %d operators are in no chain", left)
	}
	if subtasks > MaxSubtasks {
		return fmt.Errorf(": %d subtasks, at most %d", subtasks, MaxSubtasks)
	}
	return nil
}

func (p *Plan) checkEdges() error {
	for i, e := range p.Edges {
		if e == nil || e.Index != int32(i) {
			return fmt.Errorf("[%d]: missing or out of order", i)
		}
		if e.FromChain < 0 || int(e.FromChain) >= len(p.Chains) || e.ToChain < 0 || int(e.ToChain) >= len(p.Chains) {
			return fmt.Errorf("[%d]: no such chain", i)
		}
		if !contains(p.Chains[e.FromChain].Operators, e.FromOperator) || !contains(p.Chains[e.ToChain].Operators, e.ToOperator) {
			return fmt.Errorf("[%d]: the operators are not in these chains", i)
		}
		to := p.Graph.Operators[e.ToOperator]
		if e.Input < 0 || int(e.Input) >= len(to.Inputs) || to.Inputs[e.Input].Operator != e.FromOperator {
			return fmt.Errorf("[%d]: not input %d of operator %d", i, e.Input, e.ToOperator)
		}
		if err := checkEdgeKinds(e.Partitioner, e.Exchange); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		if e.Exchange == ExchangeKind_EXCHANGE_AUTO {
			return fmt.Errorf("[%d]: exchange is not decided", i)
		}
		if e.Partitioner == Partitioner_PARTITIONER_FORWARD && p.Chains[e.FromChain].Parallelism != p.Chains[e.ToChain].Parallelism {
			return fmt.Errorf("[%d]: forward between parallelism %d and %d", i, p.Chains[e.FromChain].Parallelism, p.Chains[e.ToChain].Parallelism)
		}
	}
	return nil
}

func contains(list []int32, x int32) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

func (p *Plan) checkRegions() error {
	seen := make([][]bool, len(p.Chains))
	left := 0
	for i, c := range p.Chains {
		seen[i] = make([]bool, c.Parallelism)
		left += int(c.Parallelism)
	}
	for i, r := range p.Regions {
		if r == nil || r.Index != int32(i) || len(r.Subtasks) == 0 {
			return fmt.Errorf("[%d]: missing, empty or out of order", i)
		}
		for _, in := range r.InputEdges {
			if in < 0 || int(in) >= len(p.Edges) || p.Edges[in].GetExchange() != ExchangeKind_EXCHANGE_BLOCKING {
				return fmt.Errorf("[%d]: input edge %d does not exist, or is not blocking", i, in)
			}
		}
		for _, s := range r.Subtasks {
			if s == nil || s.Chain < 0 || int(s.Chain) >= len(seen) || s.First < 0 || s.Count < 1 ||
				int64(s.First)+int64(s.Count) > int64(len(seen[s.Chain])) {
				return fmt.Errorf("[%d]: a range of subtasks that do not exist", i)
			}
			for k := s.First; k < s.First+s.Count; k++ {
				if seen[s.Chain][k] {
					return fmt.Errorf("[%d]: subtask %d of chain %d is in two regions", i, k, s.Chain)
				}
				seen[s.Chain][k] = true
				left--
			}
		}
	}
	if left != 0 {
		return fmt.Errorf(": %d subtasks are in no region", left)
	}
	return nil
}

// Validate checks one split of an enumerator.
func (s *Split) Validate() error {
	if s == nil {
		return errors.New("split: missing")
	}
	if s.Version > 1<<16-1 {
		return fmt.Errorf("split.version: %d does not fit 16 bits", s.Version)
	}
	if s.Phase < 0 {
		return fmt.Errorf("split %.80q: phase %d is negative", s.Id, s.Phase)
	}
	if len(s.Data) > MaxSplitBytes {
		return fmt.Errorf("split %.80q: %d bytes, at most %d", s.Id, len(s.Data), MaxSplitBytes)
	}
	return checkText("split.id", s.Id, MaxText)
}

// Validate checks prepared output.
func (c *Committable) Validate() error {
	if c == nil {
		return errors.New("committable: missing")
	}
	if len(c.Data) > MaxCommittable {
		return fmt.Errorf("committable of %.80q: %d bytes, at most %d", c.Sink, len(c.Data), MaxCommittable)
	}
	return checkText("committable.sink", c.Sink, MaxName)
}

// Validate checks what is said of a stored result.
func (p *Partition) Validate() error {
	switch {
	case p == nil:
		return errors.New("partition: missing")
	case p.Edge < 0 || p.Bytes < 0 || p.Records < 0:
		return fmt.Errorf("partition of edge %d: %d bytes, %d records: must not be negative", p.Edge, p.Bytes, p.Records)
	case p.Attempt == 0:
		return fmt.Errorf("partition of edge %d: attempts count from 1", p.Edge)
	case len(p.Digest) != DigestBytes:
		return fmt.Errorf("partition of edge %d: digest of %d bytes, not %d", p.Edge, len(p.Digest), DigestBytes)
	}
	if _, known := PartitionState_name[int32(p.State)]; !known || p.State == PartitionState_PARTITION_UNSPECIFIED {
		return fmt.Errorf("partition of edge %d: state %d", p.Edge, p.State)
	}
	return nil
}

// Bounded is f with every text cut to its bound and made UTF-8, so that whatever a process says of its failure can be
// stored. It is f itself if nothing had to be cut.
func (f *Failure) Bounded() *Failure {
	if f == nil {
		return nil
	}
	fits := func(s string, most int) bool { return len(s) <= most && utf8.ValidString(s) }
	if len(f.Lost) <= MaxLost && fits(f.Code, MaxName) && fits(f.Message, MaxText) && fits(f.Operator, MaxName) && fits(f.Worker, MaxName) &&
		fits(f.Position, MaxText) && fits(f.Stack, MaxStack) {
		return f
	}
	return &Failure{
		Code: cut(f.Code, MaxName), Message: cut(f.Message, MaxText), Operator: cut(f.Operator, MaxName), Chain: f.Chain,
		Index: f.Index, Attempt: f.Attempt, Worker: cut(f.Worker, MaxName), Position: cut(f.Position, MaxText),
		Stack: cut(f.Stack, MaxStack), TimeUs: f.TimeUs, Kind: f.Kind, Lost: f.Lost[:min(len(f.Lost), MaxLost)],
	}
}

// cut shortens s to at most n bytes, without half a character at its end.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
		for len(s) > 0 {
			r, size := utf8.DecodeLastRuneInString(s)
			if r != utf8.RuneError || size > 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	return string([]rune(s))
}
