package taskpb

import (
	"errors"
	"fmt"
)

// MaxStores bounds the stores that a message names.
const MaxStores = 1 << 12

// Validate checks what a leader says.
func (t *Trigger) Validate() error {
	return first(checkSomeRegions(t.Job, t.Regions), checkCheckpoint(t.Checkpoint), checkStores(t.Targets),
		checkNotNegative("copies", t.Copies), checkBefore(t.Completed, t.Checkpoint))
}

// Validate checks what a leader, or the agent, says.
func (n *CheckpointNotice) Validate() error {
	return first(checkSomeRegions(n.Job, n.Regions), checkCheckpoint(n.Checkpoint))
}

// Validate checks that there is a manifest.
func (r *Restore) Validate() error {
	if r.Checkpoint == 0 {
		return errors.New("restore of checkpoint 0")
	}
	if r.Manifest.GetObject().GetName() == "" {
		return fmt.Errorf("restore of checkpoint %d: no manifest", r.Checkpoint)
	}
	return checkStores(r.Stores)
}

func checkCheckpoint(id uint64) error {
	if id == 0 {
		return errors.New("checkpoints count from 1")
	}
	return nil
}

func checkBefore(completed, id uint64) error {
	if completed >= id {
		return fmt.Errorf("checkpoint %d begins, and %d is completed", id, completed)
	}
	return nil
}

func checkStores(all []*StoreAddress) error {
	if len(all) > MaxStores {
		return fmt.Errorf("%d stores", len(all))
	}
	for i, s := range all {
		if err := checkName("store", s.GetStore()); err != nil {
			return at(err, "stores[%d]", i)
		}
	}
	return nil
}

func checkSomeRegions(job string, all []*RegionEpoch) error {
	if len(all) == 0 {
		return errors.New("no regions")
	}
	return checkRegions(job, all)
}
