package coordinator

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Config of one coordinator. Start from DefaultConfig.
type Config struct {
	// DataDir holds the node's identity, Raft log, snapshots and artifacts. It belongs to one process at a time.
	DataDir string

	// Listen is the API address (clients, workers, other coordinators), RaftListen that of the Raft transport, HTTPListen
	// that of /metrics, /healthz and /readyz; an empty HTTPListen opens none. Port 0 draws a free port, which is
	// kept in the data directory: a coordinator's addresses must survive its restart.
	Listen     string
	RaftListen string
	HTTPListen string
	// Advertise and RaftAdvertise are the addresses that others dial; empty: the listener's own. They are needed when a
	// listener is bound to every interface.
	Advertise     string
	RaftAdvertise string

	// BootstrapExpect forms a new cluster as soon as that many coordinators without state see each other, this one
	// included. 0: never form a cluster, join one. Ignored once the data directory holds state.
	BootstrapExpect int
	// Join lists API addresses of other coordinators. This node's own address may be among them.
	Join []string

	Policy wire.Policy

	// Fits reports why state of schema old cannot be read as schema now; nil: it can. Unset: schemas have to be equal.
	Fits func(old, now string) error

	// HeartbeatTimeout and ElectionTimeout are Raft's. They are raised at start, with a warning, to ten times what the disk
	// takes for a sync: heartbeats wait for the disk, and a slow disk must not look like a dead leader.
	HeartbeatTimeout time.Duration
	ElectionTimeout  time.Duration
	// LeaseTimeout: a leader without contact to a quorum for that long steps down.
	LeaseTimeout time.Duration
	// ApplyTimeout bounds a proposal from its enqueueing to its result.
	ApplyTimeout time.Duration
	// HangTimeout: a write to the Raft log that takes longer ends the process, because a leader with a hung disk never
	// steps down by itself.
	HangTimeout time.Duration
	// StopTimeout bounds what a planned stop does before it ends: handing leadership over.
	StopTimeout time.Duration
	// NoLeaderWait is how long a call waits for a leader before it is refused with E069; the call's own deadline is
	// obeyed when it is nearer.
	NoLeaderWait time.Duration

	// SnapshotInterval is how often Raft looks whether to take a snapshot; SnapshotThreshold is the number of log
	// entries that make one worth it; TrailingLogs entries stay in the log for followers that lag a little.
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64
	TrailingLogs      uint64

	// WorkerHeartbeat is what workers are told to keep; WorkerLostAfter silence makes a worker lost.
	WorkerHeartbeat time.Duration
	WorkerLostAfter time.Duration

	// ProtocolMin and ProtocolMax are the window of task protocols accepted at submit.
	ProtocolMin int32
	ProtocolMax int32
	// MaxArtifactBytes bounds one uploaded binary; KeepArtifacts is how long a binary without a job is kept.
	MaxArtifactBytes int64
	KeepArtifacts    time.Duration

	// Version of this build, shown to clients and other coordinators.
	Version string
	Log     hclog.Logger
	// Listening, if set, is called once when every listener is open, before the node takes part in the cluster.
	Listening func(Addresses)
}

// Addresses that a node listens on, with drawn ports filled in.
type Addresses struct {
	ID   string // random id of the node, from the data directory
	API  string
	Raft string
	HTTP string // empty if there is none
}

// Ports of a coordinator unless configured otherwise.
const (
	DefaultListen     = "127.0.0.1:7420"
	DefaultRaftListen = "127.0.0.1:7421"
	DefaultHTTPListen = "127.0.0.1:9420"
)

// DefaultConfig has everything but a data directory and a way into a cluster (BootstrapExpect or Join).
func DefaultConfig() Config {
	return Config{
		Listen:            DefaultListen,
		RaftListen:        DefaultRaftListen,
		HTTPListen:        DefaultHTTPListen,
		HeartbeatTimeout:  500 * time.Millisecond,
		ElectionTimeout:   500 * time.Millisecond,
		LeaseTimeout:      250 * time.Millisecond,
		ApplyTimeout:      10 * time.Second,
		HangTimeout:       3 * time.Second,
		StopTimeout:       5 * time.Second,
		NoLeaderWait:      5 * time.Second,
		SnapshotInterval:  30 * time.Second,
		SnapshotThreshold: 8192,
		TrailingLogs:      10240,
		WorkerHeartbeat:   500 * time.Millisecond,
		WorkerLostAfter:   3 * time.Second,
		ProtocolMin:       taskpb.ProtocolMin,
		ProtocolMax:       taskpb.ProtocolMax,
		MaxArtifactBytes:  1 << 30,
		KeepArtifacts:     24 * time.Hour,
		Version:           "dev",
		Log:               hclog.NewNullLogger(),
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.DataDir == "" {
		fault("data directory: not set")
	}
	c.checkAddresses(fault)
	if c.BootstrapExpect < 0 {
		fault("bootstrap-expect %d: must not be negative", c.BootstrapExpect)
	}
	if c.BootstrapExpect > 1 && c.BootstrapExpect%2 == 0 {
		fault("bootstrap-expect %d: use an odd number; an even one tolerates no more losses than the odd one below it", c.BootstrapExpect)
	}
	if c.BootstrapExpect == 1 {
		for _, addr := range c.Join {
			if addr != c.Listen && addr != c.Advertise {
				fault("bootstrap-expect 1 forms a cluster of this node alone: do not join %s, or leave bootstrap-expect out", addr)
			}
		}
	}
	if c.BootstrapExpect > 1 && len(c.Join) == 0 {
		fault("bootstrap-expect %d: join must list the other coordinators", c.BootstrapExpect)
	}
	c.checkTimes(fault)
	if c.SnapshotThreshold == 0 {
		fault("snapshot threshold: must be positive")
	}
	if c.ProtocolMin < 1 || c.ProtocolMax < c.ProtocolMin {
		fault("task protocol window %d to %d: must be positive and in order", c.ProtocolMin, c.ProtocolMax)
	}
	if c.MaxArtifactBytes <= 0 {
		fault("maximal artifact size %d bytes: must be positive", c.MaxArtifactBytes)
	}
	if c.Version == "" {
		fault("version: not set")
	}
	if c.Log == nil {
		fault("log: not set")
	}
	return errors.Join(faults...)
}

func (c Config) checkAddresses(fault func(string, ...any)) {
	check := func(what, addr string) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			fault("%s address %q: %w", what, addr, err)
		}
	}
	check("listen", c.Listen)
	check("raft listen", c.RaftListen)
	if c.HTTPListen != "" {
		check("http listen", c.HTTPListen)
	}
	if c.Advertise != "" {
		check("advertised", c.Advertise)
	} else if isWildcard(c.Listen) {
		fault("listen address %q: an address that others can dial must be advertised", c.Listen)
	}
	if c.RaftAdvertise != "" {
		check("advertised raft", c.RaftAdvertise)
	} else if isWildcard(c.RaftListen) {
		fault("raft listen address %q: an address that others can dial must be advertised", c.RaftListen)
	}
	for _, addr := range c.Join {
		check("join", addr)
	}
}

func isWildcard(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// minRaftTimeout is the least that makes sense even on an idle machine with a fast disk.
const minRaftTimeout = 50 * time.Millisecond

func (c Config) checkTimes(fault func(string, ...any)) {
	if c.HeartbeatTimeout < minRaftTimeout {
		fault("heartbeat timeout %s: at least %s", c.HeartbeatTimeout, minRaftTimeout)
	}
	if c.ElectionTimeout < c.HeartbeatTimeout {
		fault("election timeout %s: not below the heartbeat timeout %s", c.ElectionTimeout, c.HeartbeatTimeout)
	}
	if c.LeaseTimeout <= 0 || c.LeaseTimeout > c.HeartbeatTimeout {
		fault("lease timeout %s: positive and at most the heartbeat timeout %s", c.LeaseTimeout, c.HeartbeatTimeout)
	}
	for _, t := range []struct {
		name string
		d    time.Duration
	}{
		{"apply timeout", c.ApplyTimeout},
		{"hang timeout", c.HangTimeout},
		{"stop timeout", c.StopTimeout},
		{"no-leader wait", c.NoLeaderWait},
		{"snapshot interval", c.SnapshotInterval},
		{"worker heartbeat", c.WorkerHeartbeat},
		{"retention of artifacts", c.KeepArtifacts},
	} {
		if t.d <= 0 {
			fault("%s %s: must be positive", t.name, t.d)
		}
	}
	if c.WorkerLostAfter < 2*c.WorkerHeartbeat {
		fault("worker loss timeout %s: at least two heartbeats of %s", c.WorkerLostAfter, c.WorkerHeartbeat)
	}
}
