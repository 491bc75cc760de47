package flow_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

// shape is a sealed sum type.
type shape interface{ area() int }

type square struct{ Side int }
type box struct{ A, B int }

func (s square) area() int { return s.Side * s.Side }
func (b box) area() int    { return b.A * b.B }

type drawing struct {
	Name  string
	Shape shape
}

// opaque has a hidden field and an encoding of its own.
type opaque struct{ n int64 }

type opaqueCodec struct{}

func (opaqueCodec) Name() string    { return "opaque" }
func (opaqueCodec) Version() uint32 { return 1 }
func (opaqueCodec) Append(dst []byte, v opaque) ([]byte, error) {
	return binary.AppendVarint(dst, v.n), nil
}
func (opaqueCodec) Decode(src []byte, _ uint32) (opaque, error) {
	n, _ := binary.Varint(src)
	return opaque{n}, nil
}

func buildDrawings(register func(*flow.Pipeline)) func(*flow.Pipeline, *flow.NoConfig) error {
	return func(p *flow.Pipeline, _ *flow.NoConfig) error {
		p.Of("in", drawing{"a", square{2}}, drawing{"b", box{1, 2}}, drawing{"a", box{5, 1}}).
			KeyBy(func(d drawing) string { return d.Name }).
			Reduce(func(a, b drawing) drawing {
				if b.Shape.area() > a.Shape.area() {
					return b
				}
				return a
			}).
			Map(func(d drawing) opaque { return opaque{int64(d.Shape.area())} }).
			To("out", drop[opaque]())
		register(p) // may follow the operators
		return nil
	}
}

func TestCodecsAndVariantsMayFollowTheOperators(t *testing.T) {
	out := flowtest.Sink[opaque]("out")
	flowtest.Run(t, &flow.NoConfig{}, buildDrawings(func(p *flow.Pipeline) {
		p.Codec(opaqueCodec{})
		p.Variant[shape, square]("square")
		p.Variant[shape, box]("box")
	}), out)
	var areas []int64
	for _, o := range out.Values() {
		areas = append(areas, o.n)
	}
	slices.Sort(areas)
	if !slices.Equal(areas, []int64{2, 5}) {
		t.Errorf("got %v", areas)
	}
}

func TestTypesWithoutCodecsAndVariantsAreNamedWithTheirPath(t *testing.T) {
	_, err := flow.Build("drawings", &flow.NoConfig{}, buildDrawings(func(*flow.Pipeline) {}))
	plan, ok := errors.AsType[*flow.PlanError](err)
	if !ok {
		t.Fatalf("error is %v", err)
	}
	if len(plan.Diagnostics) != 2 {
		t.Errorf("want one fault for the interface and one for the hidden field: %v", err)
	}
	for _, d := range plan.Diagnostics {
		if d.Code != "E008" || d.Where == "" {
			t.Errorf("%v", d)
		}
	}
}

func TestRegistrationsThatCannotBe(t *testing.T) {
	for name, register := range map[string]func(p *flow.Pipeline){
		"twice":           func(p *flow.Pipeline) { p.Codec(opaqueCodec{}); p.Codec(opaqueCodec{}) },
		"no interface":    func(p *flow.Pipeline) { p.Variant[square, square]("square") },
		"no such variant": func(p *flow.Pipeline) { p.Variant[shape, opaque]("opaque") },
		"variant no name": func(p *flow.Pipeline) { p.Variant[shape, square]("") },
		"two of one name": func(p *flow.Pipeline) { p.Variant[shape, square]("x"); p.Variant[shape, box]("x") },
	} {
		_, err := flow.Build("x", &flow.NoConfig{}, func(p *flow.Pipeline, _ *flow.NoConfig) error {
			register(p)
			p.Of("in", 1).To("out", drop[int]())
			return nil
		})
		if plan, ok := errors.AsType[*flow.PlanError](err); !ok || !plan.Has("E008") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
