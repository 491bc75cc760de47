package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

func defaults(t *testing.T) *Config {
	return &Config{Payments: 20_000, Accounts: 500, Small: 100, Large: 50_000, Within: time.Minute, Out: t.TempDir(), Audit: t.TempDir()}
}

// expected computes alerts and audited payments by a plain loop over the payments, which are sorted by time.
func expected(cfg *Config) (alerts, audited []string) {
	trial := map[int64]flow.Time{}
	for i := range cfg.Payments {
		p, _ := cfg.payment(i)
		at, tried := trial[p.Account]
		if tried && p.Cents > cfg.Large && p.At.Sub(at) <= cfg.Within {
			alerts = append(alerts, string(alertRow(nil, Alert{p.Account, p.Cents, p.At, at})))
			audited = append(audited, string(paymentRow(nil, p)))
		}
		delete(trial, p.Account)
		if p.Cents < cfg.Small {
			trial[p.Account] = p.At
		}
	}
	slices.Sort(alerts)
	slices.Sort(audited)
	return alerts, audited
}

func committed(t *testing.T, dir string) (rows []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range parts {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")...)
	}
	slices.Sort(rows)
	return rows
}

func TestAlertsAreThoseOfAPlainLoopAtAnyParallelism(t *testing.T) {
	alerts, audited := expected(defaults(t))
	forever := defaults(t)
	forever.Within = 1000 * time.Hour
	if all, _ := expected(forever); len(alerts) < 10 || len(all) < 2*len(alerts) {
		t.Fatalf("%d alerts, %d without forgetting: the data shows nothing", len(alerts), len(all))
	}
	for _, way := range []struct{ parallelism, mode, memory string }{{"1", "streaming", "64MiB"}, {"4", "streaming", "64MiB"}, {"2", "auto", "1KiB"}} {
		cfg := defaults(t)
		flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", way.parallelism), flowtest.Setting("mode", way.mode), flowtest.Setting("state.memory", way.memory))
		if got := committed(t, cfg.Out); !slices.Equal(got, alerts) {
			t.Errorf("%v: %d alerts, want %d", way, len(got), len(alerts))
		}
		if got := committed(t, cfg.Audit); !slices.Equal(got, audited) {
			t.Errorf("%v: %d audited payments, want %d", way, len(got), len(audited))
		}
	}
}

func TestATrialIsForgottenAfterAMinute(t *testing.T) {
	cfg := defaults(t)
	h := flowtest.Keyed(t, Payment.Of, func() *detector { return &detector{cfg: cfg} })
	at := func(d time.Duration) flow.Time { return opened.Add(d) }
	h.Push(Payment{7, 50, at(0)}, at(0))
	if got := h.Timers(7); len(got) != 1 || got[0] != at(time.Minute) {
		t.Errorf("timers %v", got)
	}
	before := h.Snapshot()
	h.Watermark(at(2 * time.Minute))
	h.Push(Payment{7, 90_000, at(3 * time.Minute)}, at(3*time.Minute))
	if got := h.Out(); len(got) != 0 {
		t.Errorf("after two minutes: %v", got)
	}
	h.Restore(before)
	h.Rescale(3)
	if trial, ok := h.Value[flow.Time](7, "trial"); !ok || trial != at(0) {
		t.Errorf("restored: %v %v", trial, ok)
	}
	h.Push(Payment{7, 90_000, at(time.Minute)}, at(time.Minute))
	if got, audited := h.Out(), h.Side(audit); len(got) != 1 || got[0].Trial != at(0) || len(audited) != 1 {
		t.Errorf("after a minute: %v, audited %v", got, audited)
	}
	if _, ok := h.Value[flow.Time](7, "trial"); ok {
		t.Error("the trial is remembered after its alert")
	}
}

func TestTheDetectorSurvives(t *testing.T) {
	cfg := defaults(t)
	cfg.Accounts = 5
	var script []flowtest.Step[Payment]
	for i := range int64(60) {
		p, at := cfg.payment(i)
		p.At, at = at+flow.Time(i*10_000_000), at+flow.Time(i*10_000_000)
		script = append(script, flowtest.Record(p, at))
		if i%5 == 4 {
			script = append(script, flowtest.Watermark[Payment](at))
		}
	}
	flowtest.Survives(t, Payment.Of, func() *detector { return &detector{cfg: cfg} }, script...)
}

func TestThePlanIsDeterministic(t *testing.T) { flowtest.Deterministic(t, defaults(t), build) }

func TestAConfigurationThatMakesNoSenseIsRefused(t *testing.T) {
	cfg := defaults(t)
	cfg.Accounts = 0
	if err := flowtest.Try(t, cfg, build); err == nil || !strings.Contains(err.Error(), "0 accounts") {
		t.Errorf("error %v", err)
	}
}
