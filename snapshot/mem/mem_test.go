package mem

import (
	"testing"

	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(*testing.T) snapshot.Store { return New() },
		Lose: func(_ *testing.T, s snapshot.Store, n snapshot.Name) {
			m := s.(*Store)
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.mu.objects, n)
		},
	})
}
