package exchangepb

import (
	"errors"
	"fmt"
)

// Protocol is the version of the exchange that this build speaks.
const Protocol = 1

// Limits of what a consumer may ask for. They bound what one message can make the producer promise or remember.
const (
	MinFrameBytes  = 4 << 10
	MaxFrameBytes  = 1 << 20
	MaxCredit      = 1 << 16 // frames, per channel and message
	MaxCredits     = 1 << 13 // channels per message
	MaxMessage     = 1 << 10 // bytes of Closed.message
	maxJobIDLength = 256
)

// Validate reports the first part of m that no consumer of this protocol sends. It does not judge PartitionRequest.protocol:
// an unknown version is answered, not taken for damage.
func (m *FromConsumer) Validate() error {
	switch x := m.GetMessage().(type) {
	case *FromConsumer_Request:
		return wrap("request", x.Request.validate())
	case *FromConsumer_Credits:
		return wrap("credits", x.Credits.validate())
	case *FromConsumer_Cancel:
		return wrap("cancel", x.Cancel.validate())
	}
	return errors.New("message: unknown or missing")
}

func wrap(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s.%w", path, err)
	}
	return nil
}

func (r *PartitionRequest) validate() error {
	switch {
	case r.GetJob() == "" || len(r.GetJob()) > maxJobIDLength:
		return fmt.Errorf("job: %d bytes long", len(r.GetJob()))
	case r.GetRegion() < 0:
		return fmt.Errorf("region: %d", r.GetRegion())
	case r.GetEdge() < 0:
		return fmt.Errorf("edge: %d", r.GetEdge())
	case r.GetProducer() < 0:
		return fmt.Errorf("producer: %d", r.GetProducer())
	case r.GetConsumer() < 0:
		return fmt.Errorf("consumer: %d", r.GetConsumer())
	case r.GetCredit() < 1 || r.GetCredit() > MaxCredit:
		return fmt.Errorf("credit: %d, want 1 to %d", r.GetCredit(), MaxCredit)
	case r.GetFrameBytes() < MinFrameBytes || r.GetFrameBytes() > MaxFrameBytes:
		return fmt.Errorf("frame_bytes: %d, want %d to %d", r.GetFrameBytes(), MinFrameBytes, MaxFrameBytes)
	}
	return nil
}

func (c *Credits) validate() error {
	if len(c.GetCredits()) == 0 || len(c.GetCredits()) > MaxCredits {
		return fmt.Errorf("credits: %d entries", len(c.GetCredits()))
	}
	for i, g := range c.GetCredits() {
		if g.GetFrames() < 1 || g.GetFrames() > MaxCredit {
			return fmt.Errorf("credits[%d].frames: %d, want 1 to %d", i, g.GetFrames(), MaxCredit)
		}
	}
	return nil
}

func (c *Closed) validate() error {
	if _, known := Refusal_name[int32(c.GetRefusal())]; !known {
		return fmt.Errorf("refusal: %d", c.GetRefusal())
	}
	if len(c.GetMessage()) > MaxMessage {
		return fmt.Errorf("message: %d bytes, at most %d", len(c.GetMessage()), MaxMessage)
	}
	return nil
}

// MaxChunks bounds what a reader may have under way.
const MaxChunks = 1 << 10

// Validate reports the first part of m that no reader sends. It does not judge ReadRequest.protocol: an unknown version
// is answered.
func (m *FromReader) Validate() error {
	switch x := m.GetMessage().(type) {
	case *FromReader_Request:
		return wrap("request", x.Request.validate())
	case *FromReader_More:
		if n := x.More.GetChunks(); n < 1 || n > MaxChunks {
			return fmt.Errorf("more.chunks: %d, want 1 to %d", n, MaxChunks)
		}
		return nil
	}
	return errors.New("message: unknown or missing")
}

func (r *ReadRequest) validate() error {
	switch {
	case r.GetJob() == "" || len(r.GetJob()) > maxJobIDLength:
		return fmt.Errorf("job: %d bytes long", len(r.GetJob()))
	case len(r.GetWorker()) > maxJobIDLength:
		return fmt.Errorf("worker: %d bytes long", len(r.GetWorker()))
	case r.GetRegion() < 0:
		return fmt.Errorf("region: %d", r.GetRegion())
	case r.GetEdge() < 0:
		return fmt.Errorf("edge: %d", r.GetEdge())
	case r.GetProducer() < 0:
		return fmt.Errorf("producer: %d", r.GetProducer())
	case r.GetAttempt() == 0:
		return errors.New("attempt: 0")
	case r.GetConsumer() < 0:
		return fmt.Errorf("consumer: %d", r.GetConsumer())
	case r.GetBlock() < 0:
		return fmt.Errorf("block: %d", r.GetBlock())
	case r.GetChunks() < 0 || r.GetChunks() > MaxChunks:
		return fmt.Errorf("chunks: %d, want 0 to %d", r.GetChunks(), MaxChunks)
	}
	return nil
}

// Validate reports what no agent sends.
func (e *ReadEnd) Validate() error {
	if e.GetBlocks() < 0 {
		return fmt.Errorf("blocks: %d", e.GetBlocks())
	}
	return nil
}

// MaxChecked bounds the partitions of one CheckRequest.
const MaxChecked = 128

// Validate reports the first part of r that no reader sends. It does not judge the protocol: an unknown version is answered.
func (r *CheckRequest) Validate() error {
	switch {
	case r.GetJob() == "" || len(r.GetJob()) > maxJobIDLength:
		return fmt.Errorf("job: %d bytes long", len(r.GetJob()))
	case len(r.GetWorker()) > maxJobIDLength:
		return fmt.Errorf("worker: %d bytes long", len(r.GetWorker()))
	case len(r.GetPartitions()) == 0 || len(r.GetPartitions()) > MaxChecked:
		return fmt.Errorf("partitions: %d, want 1 to %d", len(r.GetPartitions()), MaxChecked)
	}
	for i, p := range r.GetPartitions() {
		switch {
		case p.GetRegion() < 0 || p.GetEdge() < 0 || p.GetProducer() < 0:
			return fmt.Errorf("partitions[%d]: region %d, edge %d, producer %d", i, p.GetRegion(), p.GetEdge(), p.GetProducer())
		case p.GetAttempt() == 0:
			return fmt.Errorf("partitions[%d].attempt: 0", i)
		}
	}
	return nil
}

// Validate reports what no agent answers to a request about so many partitions.
func (a *CheckAnswer) Validate(asked int) error {
	before := int32(-1)
	for i, x := range a.GetLost() {
		if x <= before || int(x) >= asked {
			return fmt.Errorf("lost[%d]: %d after %d, of %d", i, x, before, asked)
		}
		before = x
	}
	return nil
}
