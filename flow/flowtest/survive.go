package flowtest

import (
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/worker/operator/operatortest"
	"github.com/sluiceio/sluice/worker/operator/process"
	"github.com/sluiceio/sluice/worker/task"
)

// Step is one step of a script for Survives.
type Step[In any] = operatortest.Event[In]

// Record hands over a record.
func Record[In any](v In, at flow.Time) Step[In] { return Step[In]{Value: v, At: at} }

// Watermark says that no record with a time at or below at follows. Watermarks of a script must grow.
func Watermark[In any](at flow.Time) Step[In] {
	return Step[In]{Kind: operatortest.Mark, At: at}
}

// Pass moves the clock on by d.
func Pass[In any](d time.Duration) Step[In] { return Step[In]{Kind: operatortest.Pass, Pass: d} }

// Survives is the conformance suite for processors. It plays a script, and the end of the input, undisturbed; and then with
// a snapshot and a restore after every step, at a parallelism that changes after every step, with every step taken back
// and done again, and with no memory for state. What is emitted at each step must be the same each time, in any order;
// it is emitted into one slot, and must not be changed afterwards. A processor that keeps something in its own fields
// that belongs into state fails.
func Survives[K comparable, In, Out any, P flow.KeyedProcessor[K, In, Out]](t testing.TB, key func(In) K, factory func() P, script ...Step[In]) {
	t.Helper()
	operatortest.Survives(t, func() task.StageOf[In, Out] { return keyedStage(key, factory, process.Options{}) }, key, script)
}
