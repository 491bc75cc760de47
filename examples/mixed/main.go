package main

import (
	"strconv"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/connector/generate"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Customers int64  `flag:"customers" default:"10000" help:"customers of the shop"`
	Purchases int64  `flag:"purchases" default:"200000" help:"purchases of the past"`
	Orders    int64  `flag:"orders" default:"50000" help:"live orders; 0: without end"`
	Rate      int    `flag:"rate" default:"0" help:"live orders per second; 0: full speed"`
	Out       string `flag:"out" default:"mixed-out" help:"directory of the part files, one offer per line"`
}

type (
	// Customer of the shop.
	Customer struct {
		ID   int64
		Tier string // gold, silver or basic
	}
	// Purchase is one of the past.
	Purchase struct{ Customer, Cents int64 }
	// Lifetime is a customer with everything that was bought.
	Lifetime struct {
		Customer int64
		Tier     string
		Cents    int64
	}
	// Order is a live one.
	Order struct {
		Customer, Article, Cents int64
		At                       flow.Time
	}
	// Offer is made to a customer who orders an article.
	Offer struct {
		Customer, Article int64
		Percent           int
	}
)

// Key is the customer.
func (c Customer) Key() int64 { return c.ID }

// Key is the customer.
func (p Purchase) Key() int64 { return p.Customer }

// Key is the customer.
func (l Lifetime) Key() int64 { return l.Customer }

// Key is the customer.
func (o Order) Key() int64 { return o.Customer }

// Time is the event time.
func (o Order) Time() flow.Time { return o.At }

// Amount is what was paid, in cents.
func (p Purchase) Amount() int64 { return p.Cents }

// loyal is the turnover, in cents, above which customers are made offers.
const loyal = 1_000_00

// offers keeps the turnover of each customer.
type offers struct{ life flow.ValueState[Lifetime] }

func (o *offers) Open(s *flow.Setup[int64, Offer]) error {
	o.life = s.Value[Lifetime]("lifetime")
	return nil
}

// Load takes what is known of a customer from the past. It can emit nothing, because it may be called again.
func (o *offers) Load(_ *flow.LoadCtx[int64], l Lifetime) error {
	o.life.Set(l)
	return nil
}

// Process adds an order to the turnover. It sees the complete past, and the orders of a customer in their order.
func (o *offers) Process(c *flow.Ctx[int64, Offer], in Order) error {
	l := o.life.Ref()
	l.Cents += in.Cents
	if l.Cents > loyal && l.Tier != "gold" {
		c.Emit(Offer{in.Customer, in.Article, 10})
	}
	return nil
}

func build(p *flow.Pipeline, cfg *Config) error {
	// The bounded part: who the customers are, and what they have bought.
	customers := p.From("customers", generate.Records(cfg.Customers, customer))
	purchases := p.From("purchases", generate.Records(cfg.Purchases, cfg.purchase))
	totals := flow.Sum(purchases.KeyBy(Purchase.Key), Purchase.Amount).ID("totals")
	history := customers.KeyBy(Customer.Key).
		LeftJoin(totals.KeyBy(customerOf), lifetime).ID("history")

	// The live part. A broker hands the orders of a customer over in their order, and so does one generating subtask. The
	// exchange is set because this stand-in may end, unlike a broker: orders are wanted as they come in either case.
	p.From("orders", cfg.orders(), flow.EventTime(Order.Time)).Parallelism(1).
		KeyBy(Order.Key).Exchange(flow.Pipelined).
		Bootstrap(history.KeyBy(Lifetime.Key), func() *offers { return &offers{} }).ID("offers").
		To("out", file.Text(cfg.Out, offerRow))
	return nil
}

func customerOf(t flow.KV[int64, int64]) int64 { return t.Key }

// lifetime has every customer, those without a purchase too.
func lifetime(c Customer, t flow.Opt[flow.KV[int64, int64]], emit func(Lifetime)) {
	emit(Lifetime{Customer: c.ID, Tier: c.Tier, Cents: t.Value.Value})
}

// offerRow is customer|article|percent.
func offerRow(row []byte, o Offer) []byte {
	row = append(strconv.AppendInt(row, o.Customer, 10), '|')
	row = append(strconv.AppendInt(row, o.Article, 10), '|')
	return strconv.AppendInt(row, int64(o.Percent), 10)
}

func main() { flow.Main("mixed", build) }
