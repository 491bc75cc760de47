package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/internal/wire"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

const (
	roleCoordinator = "coordinator"
	roleWorker      = "worker"

	loopback = "127.0.0.1"
)

// The usual ports of a development cluster are those of single nodes, counted up.
const (
	firstAPI         = 7420 // API and Raft of coordinators, in pairs
	firstData        = 7430 // data and control of workers, in pairs
	firstCoordHTTP   = 9420
	firstWorkerHTTP  = 9430
	mostCoordinators = 5
	mostWorkers      = 35
)

// Ports says which ports a development cluster takes.
type Ports string

// The ways to choose.
const (
	UsualPorts Ports = "usual" // where people and the command line look first, if all that are needed are free; otherwise as below
	FreePorts  Ports = "free"  // drawn, so that clusters of several people or tests do not meet
)

// DevOptions are the flags of sluice dev.
type DevOptions struct {
	Coordinators int
	Workers      int
	Slots        int    // per worker
	Memory       int64  // per worker, bytes
	DataDir      string // empty: a temporary one, removed at the end
	LogLevel     string
	Ports        Ports // empty: the usual ones
}

func (o DevOptions) validate() error {
	if o.Coordinators < 1 || o.Coordinators > mostCoordinators || o.Coordinators%2 == 0 {
		return ops.Usagef("--coordinators 1, 3 or 5", "%d coordinators", o.Coordinators)
	}
	if o.Workers < 0 || o.Workers > mostWorkers {
		return ops.Usagef(fmt.Sprintf("--workers 0 to %d", mostWorkers), "%d workers", o.Workers)
	}
	if o.Slots < 1 {
		return ops.Usagef("--slots 1 or more", "%d slots per worker", o.Slots)
	}
	if o.Ports != "" && o.Ports != UsualPorts && o.Ports != FreePorts {
		return ops.Usagef("--ports usual or --ports free", "there are no ports %q", o.Ports)
	}
	return nil
}

// layOut decides names, directories and addresses. A cluster that was in this directory before keeps its addresses: they
// stand in the Raft configuration, and in what people have written down.
func layOut(ctx context.Context, o DevOptions, before *File, dir, binary string) (*File, error) {
	f := &File{Version: fileVersion, Binary: binary, DataDir: dir, Temporary: o.DataDir == ""}
	for i := range o.Coordinators {
		f.add(roleCoordinator, fmt.Sprintf("c%d", i+1))
	}
	for i := range o.Workers {
		f.add(roleWorker, fmt.Sprintf("w%d", i+1))
	}
	if before != nil {
		if had := len(before.role(roleCoordinator)); had != o.Coordinators {
			return nil, devFault(ops.ExitPrecondition, fmt.Sprintf("--coordinators %d, or another --data-dir", had),
				fmt.Errorf("%s holds a cluster of %d coordinators", dir, had))
		}
		f.keepAddresses(before)
	}
	if err := f.fillAddresses(ctx, o.Ports); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) add(role, name string) {
	f.Nodes = append(f.Nodes, &Member{
		Name: name, Role: role, DataDir: filepath.Join(f.DataDir, name), Log: filepath.Join(f.DataDir, "logs", name+".log"),
	})
}

func (f *File) keepAddresses(before *File) {
	for _, old := range before.Nodes {
		for _, n := range f.Nodes {
			if n.Name == old.Name {
				n.API, n.Raft, n.Control, n.Data, n.HTTP = old.API, old.Raft, old.Control, old.Data, old.HTTP
			}
		}
	}
}

// fillAddresses gives an address to everything that has none. All or none of the usual ports are taken, so that nobody
// has to remember which.
func (f *File) fillAddresses(ctx context.Context, ports Ports) error {
	missing, usual := f.missing()
	if len(missing) == 0 {
		return nil
	}
	addrs, err := choose(ctx, ports, usual)
	if err != nil {
		return devFault(ops.ExitOther, "", fmt.Errorf("find free ports: %w", err))
	}
	for i, m := range missing {
		*m = addrs[i]
	}
	return nil
}

func choose(ctx context.Context, ports Ports, usual []int) ([]string, error) {
	if ports != FreePorts {
		if addrs, err := reserve(ctx, usual); err == nil {
			return addrs, nil
		}
	}
	return wire.FreeLoopback(ctx, len(usual))
}

func (f *File) missing() (missing []*string, usual []int) {
	want := func(addr *string, port int) {
		if *addr == "" {
			missing, usual = append(missing, addr), append(usual, port)
		}
	}
	for i, n := range f.role(roleCoordinator) {
		want(&n.API, firstAPI+2*i)
		want(&n.Raft, firstAPI+2*i+1)
		want(&n.HTTP, firstCoordHTTP+i)
	}
	for i, n := range f.role(roleWorker) {
		want(&n.Data, firstData+2*i)
		want(&n.Control, firstData+2*i+1)
		want(&n.HTTP, firstWorkerHTTP+i)
	}
	return missing, usual
}

// reserve finds out whether ports are free. All stay open until all were tried. Another process may take one before the
// node does; the node then says so and the start fails.
func reserve(ctx context.Context, ports []int) (addrs []string, err error) {
	for _, p := range ports {
		l, err := listen(ctx, p)
		if err != nil {
			return nil, err
		}
		defer l.Close() // nothing was accepted
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return wire.Policy{}.Listen(ctx, net.JoinHostPort(loopback, strconv.Itoa(port)))
}

// args is the command line of a node.
func (f *File) args(n *Member, o DevOptions) []string {
	join := strings.Join(f.addrs(), ",")
	args := []string{n.Role, "--data-dir", n.DataDir, "--http-listen", n.HTTP, "--join", join, "--log-level", o.LogLevel}
	if n.Role == roleCoordinator {
		return append(args, "--listen", n.API, "--raft-listen", n.Raft, "--bootstrap-expect", strconv.Itoa(o.Coordinators))
	}
	return append(args, "--listen", n.Control, "--data-listen", n.Data, "--slots", strconv.Itoa(o.Slots), "--memory", strconv.FormatInt(o.Memory, 10))
}
