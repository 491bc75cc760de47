package graph

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/proto/jobpb"
)

// Fingerprint identifies what g computes: operators, edges, schemas, state, parallelism, parameters and settings in code;
// not source lines, texts for people or warnings. Every task process compares its own with the plan's before it runs
// anything: user code that builds another graph in another process is found there.
func Fingerprint(g *jobpb.Graph) string {
	h := sha256.New()
	h.Write(header(g))
	for _, o := range g.GetOperators() {
		h.Write(operator(o))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Difference says where b first differs from a in what the fingerprint covers; empty if it does not.
func Difference(a, b *jobpb.Graph) string {
	if !bytes.Equal(header(a), header(b)) {
		return differentHeader(a, b)
	}
	as, bs := a.GetOperators(), b.GetOperators()
	for i := range max(len(as), len(bs)) {
		switch {
		case i >= len(as):
			return fmt.Sprintf("operator %d is %s, before there was none", i, describe(bs[i]))
		case i >= len(bs):
			return fmt.Sprintf("operator %d was %s, now there is none", i, describe(as[i]))
		case !bytes.Equal(operator(as[i]), operator(bs[i])):
			return fmt.Sprintf("operator %d was %s, now it is %s", i, describe(as[i]), describe(bs[i]))
		}
	}
	return ""
}

func differentHeader(a, b *jobpb.Graph) string {
	for _, m := range []struct {
		what string
		a, b map[string]string
	}{{"parameter", a.GetParams(), b.GetParams()}, {"setting", a.GetSettings(), b.GetSettings()}} {
		for _, k := range slices.Sorted(maps.Keys(merged(m.a, m.b))) {
			if x, y := m.a[k], m.b[k]; x != y {
				return fmt.Sprintf("%s %s was %q, now it is %q", m.what, k, x, y)
			}
		}
	}
	return fmt.Sprintf("the job was %q in mode %s with parallelism %d of %d, now it is %q in mode %s with parallelism %d of %d",
		a.GetName(), a.GetMode(), a.GetDefaultParallelism(), a.GetMaxParallelism(), b.GetName(), b.GetMode(), b.GetDefaultParallelism(), b.GetMaxParallelism())
}

func merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, b)
	return m
}

func describe(o *jobpb.Operator) string { return fmt.Sprintf("%s %q at %s", o.Kind, o.Id, o.Location) }

// canonical is an encoding without ambiguity: every part has its length or is a number.
type canonical []byte

func (c *canonical) num(n int64) { *c = binary.AppendVarint(*c, n) }

func (c *canonical) text(s string) {
	c.num(int64(len(s)))
	*c = append(*c, s...)
}

func (c *canonical) flag(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	c.num(n)
}

func (c *canonical) pairs(m map[string]string) {
	c.num(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		c.text(k)
		c.text(m[k])
	}
}

func header(g *jobpb.Graph) []byte {
	var c canonical
	c.num(2) // version of this encoding
	c.text(g.GetName())
	c.num(int64(g.GetMode()))
	c.num(int64(g.GetDefaultParallelism()))
	c.num(int64(g.GetMaxParallelism()))
	c.pairs(g.GetParams())
	c.pairs(g.GetSettings())
	return c
}

func operator(o *jobpb.Operator) []byte {
	var c canonical
	c.text(o.GetId())
	c.text(o.GetKind())
	c.flag(o.GetBounded())
	c.flag(o.GetStateful())
	c.num(int64(o.GetParallelism()))
	c.num(int64(len(o.GetInputs())))
	for _, in := range o.GetInputs() {
		c.num(int64(in.GetOperator()))
		c.num(int64(in.GetPartitioner()))
		c.num(int64(in.GetExchange()))
		c.text(in.GetKeySchema())
		c.text(in.GetPort())
		c.num(int64(in.GetPhase()))
		c.flag(in.GetGated())
	}
	c.num(int64(len(o.GetStates())))
	for _, s := range o.GetStates() {
		c.text(s.GetKind())
		c.text(s.GetName())
		c.text(s.GetSchema())
		c.flag(s.GetFlat())
	}
	c.text(o.GetOutputSchema())
	c.num(int64(o.GetGuarantee()))
	c.text(o.GetErrorPolicy())
	c.text(o.GetSlotGroup())
	for _, b := range []bool{o.GetNondeterministic(), o.GetBatchMemory(), o.GetOrderDependent(), o.GetUnordered()} {
		c.flag(b)
	}
	return c
}
