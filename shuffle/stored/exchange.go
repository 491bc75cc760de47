package stored

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/shuffle"
	"github.com/sluiceio/sluice/shuffle/budget"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// Config is what a task process gives to its Exchange.
type Config struct {
	// Store holds the partitions of this worker.
	Store *Store
	// Memory is the account of the network memory of the process: shuffle.Network.Account.
	Memory *budget.Account
	// Dial connects to the agent of another worker; the preface, with process number 0, has been spoken. It may be
	// called from several goroutines. Nil: every partition is read from Store.
	Dial func(ctx context.Context, p shuffle.Peer) (net.Conn, error)
	// ConnectTimeout is how long a broken connection is dialled again; 0: 10 s.
	ConnectTimeout time.Duration
	Log            hclog.Logger // nil: none
}

// Exchange is what the writers and readers of one task process share.
type Exchange struct {
	cfg   Config
	coder func() (*partition.Coder, error) // made at the first use
}

// NewExchange checks cfg. Nothing runs before Run.
func NewExchange(cfg Config) (*Exchange, error) { return nil, errUnbuilt }

// Run reads ahead for the readers, those made before it included, until ctx ends, and waits for everything that it has
// started. Readers that are open then fail. An exchange runs once.
func (x *Exchange) Run(ctx context.Context) error { return errUnbuilt }
