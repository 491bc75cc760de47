package budget_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/worker/state/budget"
)

func TestAShareThatIsAloneMayUseAll(t *testing.T) {
	b := budget.New(100)
	s := b.Open(budget.Yielding)
	idle := b.Open(budget.Yielding)
	s.Set(90)
	if over := s.Over(); over >= 0 {
		t.Errorf("over by %d although 10 of 100 bytes are left", over)
	}
	s.Set(120)
	if over := s.Over(); over != 20 {
		t.Errorf("over by %d, want 20", over)
	}
	idle.Set(30) // entitled to 50
	if over := idle.Over(); over >= 0 {
		t.Errorf("below its part and over by %d", over)
	}
	if over := s.Over(); over != 50 {
		t.Errorf("over by %d, want 50", over)
	}
	idle.Close()
	if over := s.Over(); over != 20 {
		t.Errorf("over by %d after the other has gone, want 20", over)
	}
	s.Close()
	s.Close()
	if b.Used() != 0 {
		t.Errorf("%d bytes used by nobody", b.Used())
	}
}

func TestFixedSharesAreTakenOffDownToAHalf(t *testing.T) {
	b := budget.New(100)
	f, s := b.Open(budget.Fixed), b.Open(budget.Yielding)
	f.Set(20)
	s.Set(90)
	if over := s.Over(); over != 10 {
		t.Errorf("over by %d, want 10", over)
	}
	f.Set(1000)
	if over := s.Over(); over != 40 {
		t.Errorf("over by %d, want 40", over)
	}
	f.Close()
	if b.Used() != 90 {
		t.Errorf("%d bytes used", b.Used())
	}
}

func TestNoBudgetIsNoLimit(t *testing.T) {
	var b *budget.Budget
	s := b.Open(budget.Yielding)
	s.Set(1 << 40)
	if s.Over() >= 0 || s.Used() != 0 {
		t.Error("limited by nothing")
	}
	s.Close()
}

// When everybody shrinks by what they are told, the total is kept.
func TestTheTotalIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, 1000).Draw(t, "total")
		b := budget.New(total)
		var shares []*budget.Share
		for range rapid.IntRange(1, 6).Draw(t, "shares") {
			s := b.Open(budget.Yielding)
			s.Set(rapid.Int64Range(0, 1000).Draw(t, "used"))
			shares = append(shares, s)
		}
		for _, s := range shares {
			if over := s.Over(); over > 0 {
				if s.Used()-over < min(s.Used(), s.Fair()) {
					t.Fatalf("told to go below its part: %d of %d", s.Used()-over, s.Fair())
				}
				s.Set(s.Used() - over)
			}
		}
		if b.Used() > total {
			t.Fatalf("%d of %d bytes are used", b.Used(), total)
		}
	})
}

func TestPartsCountForTheirShare(t *testing.T) {
	b := budget.New(100)
	s := b.Open(budget.Yielding)
	x, y := s.Part(), s.Part()
	x.Set(60)
	y.Set(50)
	y.Set(70)
	if s.Used() != 130 || x.Over() != 30 || y.Over() != 30 || x.Fair() != 100 {
		t.Errorf("used %d, over by %d and %d", s.Used(), x.Over(), y.Over())
	}
	y.Close()
	if s.Used() != 60 || x.Over() >= 0 {
		t.Errorf("used %d, over by %d after a part has gone", s.Used(), x.Over())
	}
	x.Close()
	s.Close()
	if b.Used() != 0 {
		t.Errorf("%d bytes used by nobody", b.Used())
	}
	if (*budget.Share)(nil).Part() != nil {
		t.Error("a part of nothing")
	}
}
