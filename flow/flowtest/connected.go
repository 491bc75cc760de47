package flowtest

import (
	"testing"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/worker/operator/either"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

// Either is a record of one of two inputs. OfA and OfB make it.
type Either[A, B any] = either.Of[A, B]

// OfA is a record of the first input.
func OfA[A, B any](v A) Either[A, B] { return Either[A, B]{Left: v} }

// OfB is a record of the second input.
func OfB[A, B any](v B) Either[A, B] { return Either[A, B]{Right: v, IsRight: true} }

// Connected is Keyed for a processor of two inputs: what is pushed is an Either.
//
//	h := flowtest.Connected(t, Order.Of, Payment.Of, func() *matcher { return &matcher{} })
//	h.Push(flowtest.OfA[Order, Payment](order), at)
func Connected[K comparable, A, B, Out any, P flow.CoProcessor[K, A, B, Out]](t testing.TB, a func(A) K, b func(B) K, factory func() P) *Harness[K, Either[A, B], Out] {
	t.Helper()
	return harness(t, either.Key(a, b), func(o process.Options) task.StageOf[Either[A, B], Out] { return connectedStage(a, b, factory, o) })
}

// SurvivesConnected is Survives for a processor of two inputs.
func SurvivesConnected[K comparable, A, B, Out any, P flow.CoProcessor[K, A, B, Out]](t testing.TB, a func(A) K, b func(B) K, factory func() P, script ...Step[Either[A, B]]) {
	t.Helper()
	stage := func() task.StageOf[Either[A, B], Out] { return connectedStage(a, b, factory, process.Options{}) }
	operatortest.Survives(t, stage, either.Key(a, b), script)
}

// connectedStage is the operator as Process makes it, before its inputs are told apart.
func connectedStage[K comparable, A, B, Out any, P flow.CoProcessor[K, A, B, Out]](a func(A) K, b func(B) K, factory func() P, o process.Options) task.StageOf[Either[A, B], Out] {
	open := func(set *process.KeySetup[K, Out]) (func(*process.KeyCtx[K, Out], Either[A, B]) error, error) {
		p := factory()
		if err := p.Open((*flow.Setup[K, Out])(set)); err != nil {
			return nil, err
		}
		return func(c *process.KeyCtx[K, Out], v Either[A, B]) error {
			if v.IsRight {
				return p.ProcessB((*flow.Ctx[K, Out])(c), v.Right)
			}
			return p.ProcessA((*flow.Ctx[K, Out])(c), v.Left)
		}, nil
	}
	return process.Keyed(either.Key(a, b), open, o)
}
