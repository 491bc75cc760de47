package mem

import (
	"testing"

	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) snapshot.Store { return New() })
}
