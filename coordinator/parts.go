package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sluiceio/sluice/coordinator/consensus"
	"github.com/sluiceio/sluice/coordinator/datadir"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/peer"
)

// Parts are what a node stands on: its disk, its network and its end. Run opens the real ones; tests bring others, in
// memory and in fake time.
type Parts struct {
	FS     vfs.FS
	Stores consensus.Stores
	// Transport is Raft's, not yet guarded; RaftAddress is how others reach it.
	Transport   consensus.Base
	RaftAddress string
	// API is the listener of the gRPC server, HTTP that of metrics and health, nil if there is none.
	API  net.Listener
	HTTP net.Listener
	// Dial connects to the API of another process.
	Dial dialFunc
	// Snapshots are the stores of the cluster's workers; nil: no checkpoint can complete.
	Snapshots snapshot.Stores
	// Exit ends the process at once. It is called when nothing else can help, and does not return outside of tests.
	Exit func(code int)
}

type dialFunc = func(ctx context.Context, address string) (net.Conn, error)

// ExitHung is the exit code of a process whose disk hangs.
const ExitHung = 70

// Open opens what a node needs in cfg.DataDir. The identity is read first, because it knows the ports.
func Open(ctx context.Context, cfg Config) (_ Parts, err error) {
	var opened []io.Closer
	defer func() {
		if err != nil {
			for _, c := range opened {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	peers := peer.New(peer.Config{Policy: cfg.Policy})
	opened = append(opened, peers)
	p := Parts{FS: vfs.OS{}, Dial: cfg.Policy.Dial, Snapshots: peers, Exit: os.Exit}
	id, err := datadir.Load(p.FS, cfg.DataDir)
	if err != nil {
		return Parts{}, err
	}
	listen := func(what, addr, before string) (net.Listener, error) {
		l, err := cfg.Policy.Listen(ctx, stablePort(addr, before))
		if err != nil {
			return nil, fmt.Errorf("listen for %s: %w", what, err)
		}
		opened = append(opened, l)
		return l, nil
	}
	if p.API, err = listen("clients", cfg.Listen, id.API); err != nil {
		return Parts{}, err
	}
	raftListener, err := listen("raft", cfg.RaftListen, id.Raft)
	if err != nil {
		return Parts{}, err
	}
	if cfg.HTTPListen != "" {
		if p.HTTP, err = listen("http", cfg.HTTPListen, id.HTTP); err != nil {
			return Parts{}, err
		}
	}
	if p.Stores, err = consensus.OpenStores(cfg.DataDir, cfg.Log.Named("raft")); err != nil {
		return Parts{}, err
	}
	p.RaftAddress = advertised(cfg.RaftAdvertise, raftListener)
	p.Transport = consensus.NewNetworkTransport(consensus.Network{
		Listener:  raftListener,
		Dialer:    cfg.Policy,
		Advertise: p.RaftAddress,
		Timeout:   raftIOTimeout(cfg),
		Log:       cfg.Log.Named("raft"),
	})
	return p, nil
}

// raftIOTimeout bounds one request between coordinators: several heartbeats, and enough for a slow disk.
func raftIOTimeout(cfg Config) time.Duration { return max(2*time.Second, 4*cfg.HeartbeatTimeout) }

// stablePort is the address to listen on: as configured, with a drawn port replaced by the one drawn before.
func stablePort(configured, before string) string {
	host, port, err := net.SplitHostPort(configured)
	if err != nil || port != "0" || before == "" {
		return configured
	}
	_, port, err = net.SplitHostPort(before)
	if err != nil {
		return configured
	}
	return net.JoinHostPort(host, port)
}

func advertised(configured string, l net.Listener) string {
	if configured != "" {
		return configured
	}
	return l.Addr().String()
}
