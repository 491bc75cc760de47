package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/nemesis"
)

// Need is what a scenario cannot do without.
type Need string

const (
	Root        Need = "root"   // and network namespaces
	Strace      Need = "strace" // that can inject
	LateInput   Need = "late input"
	Loading     Need = "loading"     // a workload that loads a stored result
	Credentials Need = "credentials" // mutual TLS and roles
	SecondBuild Need = "second build"
	LossyLog    Need = "lossy log" // a build whose Raft log acknowledges before it is durable
	IdleInput   Need = "idle input"
	LongRaftLog Need = "long Raft log"
)

// Missing says why a need is not met; nil: it is.
func (n Need) Missing() error {
	switch n {
	case Root:
		return cluster.NamespacesNeed()
	case Strace:
		return nemesis.StraceNeed()
	case LateInput:
		return fmt.Errorf("the workload has no records that are late")
	case Loading:
		return fmt.Errorf("no workload of the suite loads a stored result while it takes checkpoints")
	case Credentials:
		return fmt.Errorf("this release has no credentials: plaintext on loopback only")
	case SecondBuild:
		return fmt.Errorf("there is no second build with another minor version of the protocol")
	case LossyLog:
		return fmt.Errorf("this build has no Raft log that loses what it has acknowledged")
	case IdleInput:
		return fmt.Errorf("the workload has no partition that goes idle")
	case LongRaftLog:
		return fmt.Errorf("the number of log entries between two Raft snapshots cannot be set")
	}
	return nil
}

// placement of a scenario's nodes.
type placement string

const (
	plain   placement = "loopback"
	proxies placement = "proxied"
	netns   placement = "namespaces"
)

// Scenario is one named experiment.
type Scenario struct {
	Number  int // 0: has none in the list of faults
	Name    string
	Fault   string
	Target  string
	Judged  []string // ids of the invariants that it must show
	Needs   []Need
	Place   placement
	Members int           // coordinators
	Lasts   time.Duration // of the faults, by default
	Gate    bool          // part of `make jepsen`
	Clients int           // of the load
	// Interval of the ledger's checkpoints; 0: drawn from the seed.
	Interval time.Duration

	slots int   // of a worker; 0: workerSlots
	keys  int64 // of the ledger; 0: ledgerKeys
	// points of failure with which a node starts, in the words of internal/failpoint; empty: none.
	points func(l *Lab, n *cluster.Node) string
	own    bool // brings its own workload
	strays bool // objects of checkpoints that nobody needs are looked for in the end
	faults func(ctx context.Context, l *Lab) error
}

// Title for people.
func (s Scenario) Title() string {
	if s.Number == 0 {
		return s.Name
	}
	return fmt.Sprintf("%d %s", s.Number, s.Name)
}

// Skip says why a scenario cannot run here; nil: it can.
func (s Scenario) Skip() error {
	for _, n := range s.Needs {
		if err := n.Missing(); err != nil {
			return fmt.Errorf("needs %s: %w", n, err)
		}
	}
	if s.faults == nil {
		return fmt.Errorf("not written yet")
	}
	return nil
}

// Find a scenario by number or name.
func Find(what string) (Scenario, error) {
	all := All()
	i := slices.IndexFunc(all, func(s Scenario) bool {
		return s.Name == what || s.Number > 0 && strconv.Itoa(s.Number) == what
	})
	if i < 0 {
		return Scenario{}, fmt.Errorf("there is no scenario %q", what)
	}
	return all[i], nil
}
