package taskpb

// The protocol between a worker agent and the runtime that is linked into a job binary. A task process says its
// version in Hello; the agent speaks every version of the window and refuses the others (E045). Raised whenever a
// message changes its meaning; adding a field that old receivers may ignore does not raise it.
const (
	// Protocol is the version that this runtime speaks.
	Protocol = 1
	// ProtocolMin and ProtocolMax are the window of versions that this agent speaks.
	ProtocolMin = 1
	ProtocolMax = Protocol
)
