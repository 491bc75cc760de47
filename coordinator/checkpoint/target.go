package checkpoint

import (
	"slices"

	"github.com/sluiceio/sluice/proto/taskpb"
)

func Rotated(as []*taskpb.StoreAddress, turn uint64) []*taskpb.StoreAddress {
	if len(as) == 0 {
		return nil
	}
	n := int(turn % uint64(len(as)))
	return slices.Concat(as[n:], as[:n])
}
