package barrier

import (
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/internal/invariant"
)

// Aligner waits for the barriers of the channels of one subtask. A subtask without channels, a source, is aligned by the
// trigger alone.
//
// One checkpoint is under way at a time. A higher id gives up a lower one: it would not have begun otherwise. Of an id that
// was frozen or given up, later barriers and triggers count for nothing.
type Aligner struct {
	channels []channel
	missing  int                  // channels that have neither ended nor brought the barrier of current
	open     int                  // channels that have not ended
	current  element.CheckpointID // that is being aligned; 0: none is
	decided  element.CheckpointID // the highest that was frozen or given up
}

type channel struct{ ended, held bool }

// Step is what has to be done because of a call.
type Step struct {
	// Resume: the channels that are held have to be read again. It comes before Freeze and Hold.
	Resume bool
	// Freeze is the checkpoint that is aligned now; 0: none is.
	Freeze element.CheckpointID
	// Hold: the channel that the call was about must not be read.
	Hold bool
	// Began: the call began to align a checkpoint, which is not aligned yet.
	Began bool
}

// New waits for nothing.
func New(channels int) *Aligner {
	return &Aligner{channels: make([]channel, channels), open: channels}
}

// Current is the checkpoint that is being aligned; 0: none is.
func (a *Aligner) Current() element.CheckpointID { return a.current }

// Decided is the highest checkpoint that was frozen or given up.
func (a *Aligner) Decided() element.CheckpointID { return a.decided }

// Held reports whether a channel must not be read.
func (a *Aligner) Held(channel int) bool { return a.channels[channel].held }

// Trigger says that the coordinator has begun a checkpoint.
func (a *Aligner) Trigger(id element.CheckpointID) Step {
	var s Step
	if a.begin(id, &s) {
		a.settle(&s)
	}
	return s
}

// Barrier says that a channel has brought the barrier of a checkpoint.
func (a *Aligner) Barrier(ch int, id element.CheckpointID) Step {
	var s Step
	if !a.begin(id, &s) || id != a.current {
		return s
	}
	if c := &a.channels[ch]; !c.held && !c.ended {
		c.held = true
		a.missing--
		s.Hold = !invariant.Without("alignment")
	}
	a.settle(&s)
	return s
}

// End says that a channel has ended.
func (a *Aligner) End(ch int) Step {
	var s Step
	c := &a.channels[ch]
	if c.ended {
		return s
	}
	c.ended = true
	a.open--
	if a.current == 0 {
		return s
	}
	if !c.held {
		a.missing--
	}
	a.settle(&s)
	return s
}

// Abort gives a checkpoint up, and all below it.
func (a *Aligner) Abort(id element.CheckpointID) Step {
	var s Step
	if id <= a.decided {
		return s
	}
	if a.current != 0 && a.current <= id {
		a.release(&s)
	}
	a.decided = id
	return s
}

// begin makes id the current checkpoint, unless it is decided or a higher one is under way. False: it does not count.
func (a *Aligner) begin(id element.CheckpointID, s *Step) bool {
	if id <= a.decided {
		return false
	}
	if id == a.current {
		return true
	}
	if a.current != 0 {
		a.release(s)
	}
	a.decided = id - 1
	a.current, a.missing = id, a.open
	s.Began = true
	return true
}

// settle decides the current checkpoint if nothing is missing.
func (a *Aligner) settle(s *Step) {
	if a.missing > 0 {
		return
	}
	s.Freeze, s.Hold, s.Began = a.current, false, false
	a.decided = a.current
	a.release(s)
}

// release lets go all channels.
func (a *Aligner) release(s *Step) {
	a.current = 0
	for i := range a.channels {
		s.Resume = s.Resume || a.channels[i].held
		a.channels[i].held = false
	}
}
