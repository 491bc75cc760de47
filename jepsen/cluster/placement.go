package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/jepsen/cluster/link"
)

// Address of a port: where a node listens, and what the others are told.
type Address struct{ Listen, Advertise string }

// Site is where a node stands.
type Site struct {
	API, Second, HTTP Address
	// Prefix of the command line that runs a process there.
	Prefix []string
}

// Placement says where the nodes of one cluster stand and what can be done to what is between them. It serves one cluster.
type Placement interface {
	// Name for people.
	Name() string
	// Site of a node, made for it. Called once for each before anything runs.
	Site(ctx context.Context, n *Node) (Site, error)
	// Open what stands between the nodes, once, before the first of them starts.
	Open(ctx context.Context, c *Cluster) error
	// Set hurts one direction of a link; ErrNotHere if the placement has no means to it. Heal ends all of that.
	Set(d link.Direction, r link.Rule) error
	Heal() error
	// Policy of connections to the nodes.
	Policy() wire.Policy
	// Close removes everything that the placement has made. Nodes are gone by then.
	Close() error
}

// ErrNotHere: the placement has no means to do that.
var ErrNotHere = errors.New("this placement cannot do that")

// Loopback has every node on its own ports of 127.0.0.1, with nothing between them.
func Loopback() Placement { return loopback{} }

type loopback struct{}

func (loopback) Name() string                         { return "loopback" }
func (loopback) Open(context.Context, *Cluster) error { return nil }
func (loopback) Heal() error                          { return nil }
func (loopback) Close() error                         { return nil }
func (loopback) Policy() wire.Policy                  { return wire.Policy{} }

func (loopback) Site(ctx context.Context, _ *Node) (Site, error) {
	free, err := wire.FreeLoopback(ctx, 3)
	if err != nil {
		return Site{}, err
	}
	at := func(a string) Address { return Address{a, a} }
	return Site{API: at(free[0]), Second: at(free[1]), HTTP: at(free[2])}, nil
}

func (loopback) Set(link.Direction, link.Rule) error {
	return fmt.Errorf("plain loopback: %w", ErrNotHere)
}

// Proxied has every node on 127.0.0.1 and a proxy in front of each port that other nodes dial. No rights are needed; who has
// dialled is known where /proc is (Linux), else rules count for every caller of a node alike.
func Proxied(seed uint64) Placement { return &proxied{mesh: link.NewMesh(seed)} }

type proxied struct {
	loopback
	mesh  *link.Mesh
	ports []link.Proxy
	group *run.Group
}

func (p *proxied) Name() string { return "proxied" }

func (p *proxied) Site(ctx context.Context, n *Node) (Site, error) {
	free, err := wire.FreeLoopback(ctx, 5)
	if err != nil {
		return Site{}, err
	}
	s := Site{API: Address{free[0], free[1]}, Second: Address{free[2], free[3]}, HTTP: Address{free[4], free[4]}}
	for _, a := range []Address{s.API, s.Second} {
		p.ports = append(p.ports, link.Proxy{Listen: a.Advertise, Target: a.Listen, To: n.Name()})
	}
	return s, nil
}

func (p *proxied) Open(ctx context.Context, c *Cluster) error {
	p.group = run.NewGroup(context.WithoutCancel(ctx), "proxies") // until Close: nodes are ended over them
	for _, port := range p.ports {
		port.From = c.dialler
		if err := p.mesh.Serve(ctx, p.group, port); err != nil {
			return err
		}
	}
	return nil
}

func (p *proxied) Set(d link.Direction, r link.Rule) error {
	p.mesh.Set(d, r)
	return nil
}

func (p *proxied) Heal() error {
	p.mesh.Heal()
	return nil
}

func (p *proxied) Close() error {
	if p.group == nil {
		return nil
	}
	p.group.Stop()
	return p.group.Wait()
}
