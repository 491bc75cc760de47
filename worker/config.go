package worker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/flow/setting"
	"github.com/sluiceio/sluice/internal/wire"
)

// Config of one worker. Start from DefaultConfig.
type Config struct {
	// DataDir holds the worker's identity, cached artifacts and the directories of task processes. It belongs to one
	// process at a time.
	DataDir string

	// Listen is the control address (logs), DataListen the single port for records of all task processes, HTTPListen
	// that of /metrics, /healthz and /readyz; an empty HTTPListen opens none. Port 0 draws a free port at each start.
	Listen     string
	DataListen string
	HTTPListen string
	// Advertise and DataAdvertise are the addresses that others dial; empty: the listener's own. They are needed when a
	// listener is bound to every interface.
	Advertise     string
	DataAdvertise string
	// Join lists API addresses of coordinators; any of them leads to the leader.
	Join []string

	Policy wire.Policy

	// Slots is how many subtasks of one chain may run here at a time. Memory in bytes is shared by the slots evenly.
	Slots  int
	Memory int64
	// Settings of the engine for jobs that say nothing of them, on the command line or in code; by name, and only such as
	// a task process obeys by itself.
	Settings map[string]string
	// SnapshotStore is where the objects of checkpoints go: PeerStore, the workers' own disks, or file: and a directory that every
	// machine of the cluster reaches under this name. All workers must be told the same.
	SnapshotStore string
	// Scrub is how often every object of this worker is read and compared with its digest; 0: never.
	Scrub time.Duration
	// Zone names the failure domain, shown and used to spread copies; may be empty.
	Zone string

	// Heartbeat and LostAfter hold until the leader's Welcome says what it expects.
	Heartbeat time.Duration
	LostAfter time.Duration
	// OrphanGrace: task processes are stopped when no leader was found for that long.
	OrphanGrace time.Duration
	// HelloTimeout is what a started binary may take until it has introduced itself as a job.
	HelloTimeout time.Duration
	// BuildTimeout bounds the user's build function unless the leader says otherwise.
	BuildTimeout time.Duration
	// StopGrace: a task process that was asked to end is killed after that time.
	StopGrace time.Duration
	// FetchTimeout: a transfer of an artifact that stands still for that long is given up.
	FetchTimeout time.Duration
	// PrefaceTimeout: a data connection must have said where it leads within that time.
	PrefaceTimeout time.Duration

	// ArtifactBytes bounds the cache of job binaries; binaries in use are never removed.
	ArtifactBytes int64
	// LogBytes bounds the kept output of one task process; KeepProcesses is how many ended task processes keep their
	// output.
	LogBytes      int64
	KeepProcesses int
	// MaxBuilds is how many build functions may run at a time.
	MaxBuilds int

	// Version of this build, shown to coordinators and clients.
	Version string
	Log     hclog.Logger
	// Listening, if set, is called once when every listener is open, before the worker registers.
	Listening func(Addresses)
}

// Addresses that a worker listens on, with drawn ports filled in.
type Addresses struct {
	ID          string // random id of the worker, from the data directory
	Incarnation uint64
	Control     string
	Data        string
	HTTP        string // empty if there is none
}

// Ports of a worker unless configured otherwise.
const (
	DefaultListen     = "127.0.0.1:7431"
	DefaultDataListen = "127.0.0.1:7430"
	DefaultHTTPListen = "127.0.0.1:9430"
)

// DefaultConfig has everything but a data directory and coordinators to join.
func DefaultConfig() Config {
	return Config{
		Listen:         DefaultListen,
		DataListen:     DefaultDataListen,
		HTTPListen:     DefaultHTTPListen,
		Slots:          4,
		Memory:         4 << 30,
		Heartbeat:      500 * time.Millisecond,
		LostAfter:      3 * time.Second,
		OrphanGrace:    10 * time.Minute,
		HelloTimeout:   10 * time.Second,
		BuildTimeout:   30 * time.Second,
		StopGrace:      5 * time.Second,
		FetchTimeout:   15 * time.Second,
		PrefaceTimeout: 5 * time.Second,
		ArtifactBytes:  4 << 30,
		LogBytes:       64 << 20,
		KeepProcesses:  64,
		MaxBuilds:      2,
		SnapshotStore:  PeerStore,
		Scrub:          time.Hour,
		Version:        "dev",
		Log:            hclog.NewNullLogger(),
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
	if c.Slots < 1 {
		fault("slots %d: must be positive", c.Slots)
	} else {
		c.checkSettings(fault)
	}
	c.checkTimes(fault)
	if c.ArtifactBytes < 1 || c.LogBytes < 1 {
		fault("bounds of artifacts (%d bytes) and logs (%d bytes): must be positive", c.ArtifactBytes, c.LogBytes)
	}
	if c.KeepProcesses < 0 {
		fault("kept processes %d: must not be negative", c.KeepProcesses)
	}
	if c.MaxBuilds < 1 {
		fault("builds at a time %d: must be positive", c.MaxBuilds)
	}
	if err := checkSnapshotStore(c.SnapshotStore); err != nil {
		faults = append(faults, err)
	}
	if c.Scrub < 0 {
		fault("scrubbing every %s: must not be negative", c.Scrub)
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
	dialable := func(what, listen, advertise string) {
		check(what+" listen", listen)
		if advertise != "" {
			check("advertised "+what, advertise)
		} else if isWildcard(listen) {
			fault("%s listen address %q: an address that others can dial must be advertised", what, listen)
		}
	}
	dialable("control", c.Listen, c.Advertise)
	dialable("data", c.DataListen, c.DataAdvertise)
	if c.HTTPListen != "" {
		check("http listen", c.HTTPListen)
	}
	if len(c.Join) == 0 {
		fault("join: at least one coordinator is needed")
	}
	for _, addr := range c.Join {
		check("join", addr)
	}
}

// checkSettings also finds out whether the memory suffices: a task process may hold a single slot.
func (c Config) checkSettings(fault func(string, ...any)) {
	sound := true
	for _, p := range setting.Check(c.Settings) {
		if !p.Warning() {
			sound = false
			fault("%s: %s", p.Message, strings.Join(p.Hints, "; "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		if s, known := setting.Lookup(name); known && !s.Process {
			sound = false
			fault("setting %s: the job decides it, not a worker", name)
		}
	}
	if !sound {
		return
	}
	if _, err := setting.Divide(c.slotMemory(), setting.Values(c.Settings)); err != nil {
		fault("memory %s for %d slots: %w", setting.Size(c.Memory), c.Slots, err)
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

func (c Config) checkTimes(fault func(string, ...any)) {
	for _, t := range []struct {
		name  string
		value time.Duration
	}{
		{"heartbeat", c.Heartbeat}, {"orphan grace", c.OrphanGrace}, {"hello timeout", c.HelloTimeout},
		{"build timeout", c.BuildTimeout}, {"stop grace", c.StopGrace}, {"fetch timeout", c.FetchTimeout},
		{"preface timeout", c.PrefaceTimeout},
	} {
		if t.value <= 0 {
			fault("%s %s: must be positive", t.name, t.value)
		}
	}
	if c.LostAfter < 3*c.Heartbeat {
		fault("loss timeout %s: at least three heartbeats of %s", c.LostAfter, c.Heartbeat)
	}
	if c.OrphanGrace < c.LostAfter {
		fault("orphan grace %s: not below the loss timeout %s", c.OrphanGrace, c.LostAfter)
	}
}

// slotMemory is one slot's share, in bytes.
func (c Config) slotMemory() int64 { return c.Memory / int64(c.Slots) }
