package schedule

import "github.com/sluiceio/sluice/coordinator/schedule/event"

// What happens, what has to be done about it, and the limits.
type (
	Event        = event.Event
	Attached     = event.Attached
	Detached     = event.Detached
	Heartbeat    = event.Heartbeat
	Reported     = event.Reported
	Built        = event.Built
	Draining     = event.Draining
	Missing      = event.Missing
	Objects      = event.Objects
	ProposalDone = event.ProposalDone
	Published    = event.Published
	Fetched      = event.Fetched
	Applied      = event.Applied
	Tick         = event.Tick
	Action       = event.Action
	Propose      = event.Propose
	Send         = event.Send
	Drop         = event.Drop
	Publish      = event.Publish
	Fetch        = event.Fetch
	WakeAt       = event.WakeAt
	Config       = event.Config
)

// DefaultConfig has every limit set.
func DefaultConfig() Config { return event.DefaultConfig() }
