package checkpoint

import (
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow/setting"
)

// A job that asks for ten checkpoints a second gets them.
func TestAPauseThatNobodyAskedForKeepsTheInterval(t *testing.T) {
	for _, c := range []struct {
		said map[string]string
		want time.Duration
	}{
		{map[string]string{}, 500 * time.Millisecond},
		{map[string]string{setting.CheckpointEvery: "100ms"}, 50 * time.Millisecond},
		{map[string]string{setting.CheckpointEvery: "100ms", setting.CheckpointPause: "300ms"}, 300 * time.Millisecond},
		{map[string]string{setting.CheckpointEvery: "0"}, 0},
	} {
		if got := Configure(setting.Values(c.said)).Pause; got != c.want {
			t.Errorf("%v: a pause of %s, not %s", c.said, got, c.want)
		}
	}
}
