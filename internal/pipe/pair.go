package pipe

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// Descriptors of a task process.
const (
	controlDescriptor = 3 + iota
	connsDescriptor
	lockDescriptor
)

// Environment of a task process: what an agent says before a link exists.
const (
	EnvTask     = "SLUICE_TASK"      // 1: this process was started by an agent
	EnvWorker   = "SLUICE_WORKER"    // id of the worker
	EnvInsecure = "SLUICE_INSECURE"  // 1: the agent's wire.Policy is insecure, so the process may dial beyond loopback
	EnvResults  = "SLUICE_RESULTS"   // directory of stored results, which the process shares with the agent and outlives it
	EnvObjects  = "SLUICE_SNAPSHOTS" // where snapshots go: peer:DIR is the directory that it shares with the agent, file:DIR one that all share
	EnvSpill    = "SLUICE_SPILL"     // directory for files that nobody needs after the process; removed by the agent
)

// AgentEnd is the agent's side of the link to one task process.
type AgentEnd struct {
	Link  *Link
	Conns *Sender
}

// Close ends both sockets.
func (e *AgentEnd) Close() error { return errors.Join(e.Link.Close(), e.Conns.Close()) }

// ProcessEnd is the task process's side.
type ProcessEnd struct {
	Link  *Link
	Conns *Listener
}

// Close ends both sockets.
func (e *ProcessEnd) Close() error { return errors.Join(e.Link.Close(), e.Conns.Close()) }

// Pair makes the two sockets of a link. inherit goes to the process as its first extra files, in this order, and must
// be closed in the agent once the process has started, or end of file never comes.
func Pair() (agent *AgentEnd, inherit []*os.File, err error) {
	var conns [2]*net.UnixConn
	for i := range conns {
		here, there, err := socketPair()
		if err != nil {
			closeAll(inherit)
			if conns[0] != nil {
				err = errors.Join(err, conns[0].Close())
			}
			return nil, nil, fmt.Errorf("make link: %w", err)
		}
		conns[i], inherit = here, append(inherit, there)
	}
	return &AgentEnd{Link: NewLink(conns[0]), Conns: &Sender{conn: conns[1]}}, inherit, nil
}

// ErrNotInherited says that this process was not started by a worker agent.
var ErrNotInherited = errors.New("no link to a worker agent was inherited")

// Inherited takes over the sockets of a task process, and keeps them and the lock of its directory from its own
// children. Once per process.
func Inherited() (*ProcessEnd, error) {
	control, err := inherited(controlDescriptor)
	if err != nil {
		return nil, err
	}
	conns, err := inherited(connsDescriptor)
	if err != nil {
		return nil, errors.Join(err, control.Close())
	}
	keepFromChildren(lockDescriptor)
	return &ProcessEnd{Link: NewLink(control), Conns: &Listener{conn: conns}}, nil
}

func inherited(fd uintptr) (*net.UnixConn, error) {
	f := os.NewFile(fd, fmt.Sprintf("inherited descriptor %d", fd))
	if f == nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, ErrNotInherited)
	}
	return unixConn(f)
}

// unixConn turns f into a connection and closes f.
func unixConn(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	err = errors.Join(err, f.Close())
	if conn == nil {
		return nil, fmt.Errorf("%s: %w: %w", f.Name(), ErrNotInherited, err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is a %T: %w", f.Name(), conn, ErrNotInherited), conn.Close())
	}
	return unix, nil
}
