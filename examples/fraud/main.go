package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Payments int64         `flag:"payments" default:"100000" help:"number of payments"`
	Accounts int64         `flag:"accounts" default:"500" help:"number of accounts"`
	Rate     int           `flag:"rate" default:"0" help:"payments per second; 0: full speed"`
	Small    int64         `flag:"small" default:"100" help:"cents below which a payment looks like a trial"`
	Large    int64         `flag:"large" default:"50000" help:"cents above which a payment hurts"`
	Within   time.Duration `flag:"within" default:"1m" help:"how long a trial is remembered"`
	Out      string        `flag:"out" default:"fraud-out" help:"directory of the alerts, one account|cents|time|trial per line"`
	Audit    string        `flag:"audit" default:"fraud-audit" help:"directory of the payments that had an alert"`
}

// Payment is one record of the input.
type Payment struct {
	Account int64
	Cents   int64
	At      flow.Time
}

// Of is the key.
func (p Payment) Of() int64 { return p.Account }

// Time is the event time.
func (p Payment) Time() flow.Time { return p.At }

// Alert names a payment that is to be looked at, and the trial before it.
type Alert struct {
	Account, Cents int64
	At, Trial      flow.Time
}

// audit has the payments with an alert.
var audit = flow.NewTag[Payment]("audit")

// detector remembers the last trial of an account for a while.
type detector struct {
	cfg    *Config
	trial  flow.ValueState[flow.Time]
	forget flow.EventTimer
}

// Open declares the state.
func (d *detector) Open(s *flow.Setup[int64, Alert]) error {
	d.trial = s.Value[flow.Time]("trial")
	d.forget = s.EventTimer("forget", func(*flow.Ctx[int64, Alert], flow.Time) error {
		d.trial.Clear()
		return nil
	})
	return nil
}

// Process emits an alert for a large payment that follows a trial. Any payment ends the trial before it.
func (d *detector) Process(c *flow.Ctx[int64, Alert], p Payment) error {
	// The timer frees what is remembered, when the watermark has come so far; records may be far ahead of that.
	if at, tried := d.trial.Load(); tried && p.Cents > d.cfg.Large && p.At.Sub(at) <= d.cfg.Within {
		c.Emit(Alert{p.Account, p.Cents, p.At, at})
		c.Side(audit, p)
	}
	d.trial.Clear()
	d.forget.Clear()
	if p.Cents < d.cfg.Small {
		d.trial.Set(p.At)
		d.forget.Set(p.At.Add(d.cfg.Within)) // after all payments that are not later
	}
	return nil
}

func build(p *flow.Pipeline, cfg *Config) error {
	if cfg.Accounts < 1 || cfg.Within <= 0 {
		return fmt.Errorf("%d accounts, trials remembered for %v: both must be positive", cfg.Accounts, cfg.Within)
	}
	src := generate.Records(cfg.Payments, cfg.payment, generate.Rate(cfg.Rate), generate.Splits(1)) // in order
	alerts := p.From("payments", src, flow.EventTime(Payment.Time)).
		KeyBy(Payment.Of).
		Process(func() *detector { return &detector{cfg: cfg} }).ID("detector")
	alerts.To("alerts", file.Text(cfg.Out, alertRow))
	alerts.SideOutput(audit).To("audit", file.Text(cfg.Audit, paymentRow))
	return nil
}

func alertRow(row []byte, a Alert) []byte {
	return fields(row, a.Account, a.Cents, int64(a.At), int64(a.Trial))
}

func paymentRow(row []byte, p Payment) []byte { return fields(row, p.Account, p.Cents, int64(p.At)) }

func fields(row []byte, vs ...int64) []byte {
	for i, v := range vs {
		if i > 0 {
			row = append(row, '|')
		}
		row = strconv.AppendInt(row, v, 10)
	}
	return row
}

func main() { flow.Main("fraud", build) }
