package flow

import (
	"fmt"
	"slices"

	"github.com/sluiceio/sluice/connector/manual"
)

// replacement is a source or sink that stands in for the one that build gives under an id.
type replacement struct {
	connector any // a Source[T] or a Sink[T]
	typ       string
	where     string
	used      bool
}

// ReplaceSource makes From(id, …) read src instead of what it is given; its options are kept. For tests: call it before the
// job's own build function.
func (p *Pipeline) ReplaceSource[T any](id string, src Source[T]) {
	p.replaced["source "+id] = replacement{connector: src, typ: fmt.Sprintf("flow.Source[%T]", *new(T)), where: caller()}
}

// ReplaceSink makes To(id, …) write to sink instead of what it is given. For tests: call it before the job's own build
// function.
func (p *Pipeline) ReplaceSink[T any](id string, sink Sink[T]) {
	p.replaced["sink "+id] = replacement{connector: sink, typ: fmt.Sprintf("flow.Sink[%T]", *new(T)), where: caller()}
}

// ReplaceAll puts every source and sink of the job into the hands of a test, but those that ReplaceSource and ReplaceSink name.
// Call it before the job's own build function.
func (p *Pipeline) ReplaceAll(by *manual.Connectors) { p.byHand = by }

func replacedSource[T any](p *Pipeline, id, where string, src Source[T]) Source[T] {
	if r, ok := take[Source[T]](p, "source "+id, where); ok {
		return r
	}
	if p.byHand != nil {
		return manual.Source(p.byHand, id, src)
	}
	return src
}

func replacedSink[T any](p *Pipeline, id, where string, sink Sink[T]) Sink[T] {
	if r, ok := take[Sink[T]](p, "sink "+id, where); ok {
		return r
	}
	if p.byHand != nil {
		return manual.Sink[T](p.byHand, id)
	}
	return sink
}

// take is the replacement of a source or sink, if there is one.
func take[C any](p *Pipeline, what, where string) (c C, ok bool) {
	r, found := p.replaced[what]
	if !found {
		return c, false
	}
	r.used = true
	p.replaced[what] = r
	if c, ok = r.connector.(C); !ok {
		p.unfit(what, where, r)
	}
	return c, ok
}

func (p *Pipeline) unfit(what, where string, r replacement) {
	p.fault("E018", r.where, fmt.Sprintf("the replacement of %s has type %s and does not fit %s", what, r.typ, where),
		"give the replacement the record type of the job")
}

// unusedReplacements reports replacements of what the job does not have.
func (p *Pipeline) unusedReplacements() {
	var unused []string
	for what, r := range p.replaced {
		if !r.used {
			unused = append(unused, what)
		}
	}
	slices.Sort(unused)
	for _, what := range unused {
		p.fault("E018", p.replaced[what].where, fmt.Sprintf("the job has no %s to replace", what), "use the id that the job gives to From or To")
	}
}
