package taskpb

import "fmt"

// Bounds of what a process says about time.
const (
	// MaxClockSplits is how many splits of a source a Clock describes.
	MaxClockSplits = 8
	// MaxGroups is how many alignment groups a process may belong to.
	MaxGroups = 256
)

// Validate checks the attempt and the bounds.
func (c *Clock) Validate() error {
	if err := checkAttempt(c.GetChain(), c.GetIndex(), c.GetAttempt()); err != nil {
		return err
	}
	for i, in := range c.Inputs {
		if in == nil || in.Channels < 0 || in.IdleChannels < 0 || in.EndedChannels < 0 || in.From < -1 {
			return fmt.Errorf("inputs[%d]: %v", i, in)
		}
	}
	for i, h := range c.Held {
		if err := checkName("operator", h.GetOperator()); err != nil {
			return at(err, "held[%d]", i)
		}
	}
	if c.Source == nil {
		return nil
	}
	return at(c.Source.validate(), "source")
}

func (s *SourceClock) validate() error {
	switch {
	case len(s.Splits) > MaxClockSplits:
		return fmt.Errorf("%d splits, at most %d", len(s.Splits), MaxClockSplits)
	case s.IdleAfterUs < 0 || s.MaxDriftUs < 0:
		return fmt.Errorf("idle after %d µs, drift %d µs: must not be negative", s.IdleAfterUs, s.MaxDriftUs)
	case len(s.Group) > maxName:
		return fmt.Errorf("group of %d bytes: may have %d", len(s.Group), maxName)
	}
	for i, x := range s.Splits {
		if len(x.GetId()) > maxName {
			return fmt.Errorf("splits[%d]: id of %d bytes, may have %d", i, len(x.Id), maxName)
		}
	}
	return nil
}

func checkClocks(clocks []*Clock) error {
	for i, c := range clocks {
		if err := c.Validate(); err != nil {
			return at(err, "clocks[%d]", i)
		}
	}
	return nil
}

func checkGroups(groups []*GroupClock) error {
	if len(groups) > MaxGroups {
		return fmt.Errorf("%d groups, at most %d", len(groups), MaxGroups)
	}
	for i, g := range groups {
		if err := checkName("group", g.GetGroup()); err != nil {
			return at(err, "groups[%d]", i)
		}
	}
	return nil
}

// ValidateTime checks what a sample says about time.
func (s *Sample) ValidateTime() error { return first(checkClocks(s.Clocks), checkGroups(s.Groups)) }

// Validate checks the target and the groups.
func (g *GroupClocks) Validate() error {
	return first(checkName("job id", g.GetJob()), checkGroups(g.GetGroups()))
}
