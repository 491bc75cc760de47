package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/jepsen/cluster/link"
)

// NamespacesNeed says why namespaces cannot be used here; nil: they can.
func NamespacesNeed() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("network namespaces need the command ip (iproute2)")
	}
	name := fmt.Sprintf("%stry%d", mark, os.Getpid())
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	return ip("netns", "del", name)
}

// Namespaces has every node in a network namespace of its own, with an address of its own, on a bridge: a direction is cut by a route
// that leads nowhere, a node is isolated by taking its interface down. net is the third byte of the addresses, 10.77.net.0/24; a
// cluster at a time has it.
func Namespaces(net uint8) Placement {
	return &namespaces{net: net, bridge: fmt.Sprintf("%sb%d", mark, net), at: map[string]string{}, cut: map[link.Direction]bool{}}
}

// mark begins the name of everything that is made in the kernel.
const mark = "sjep"

type namespaces struct {
	net    uint8
	bridge string
	up     bool
	names  []string
	at     map[string]string // address by node
	cut    map[link.Direction]bool
}

func (s *namespaces) Name() string        { return "namespaces" }
func (s *namespaces) Policy() wire.Policy { return wire.Policy{Insecure: true} }

func (s *namespaces) Site(_ context.Context, n *Node) (Site, error) {
	if err := s.raise(); err != nil {
		return Site{}, err
	}
	i := len(s.names) + 1
	name := fmt.Sprintf("%s%dn%d", mark, s.net, i)
	address := fmt.Sprintf("10.77.%d.%d", s.net, i+1)
	note(marked{Namespace: name})
	s.names = append(s.names, name)
	s.at[n.Name()] = address
	outer := name + "o"
	for _, args := range [][]string{
		{"netns", "add", name},
		{"link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name},
		{"link", "set", outer, "master", s.bridge, "up"},
		{"-n", name, "addr", "add", address + "/24", "dev", "eth0"},
		{"-n", name, "link", "set", "eth0", "up"},
		{"-n", name, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			return Site{}, err
		}
	}
	at := func(port int) Address { a := fmt.Sprintf("%s:%d", address, port); return Address{a, a} }
	return Site{API: at(7420), Second: at(7421), HTTP: at(7422), Prefix: []string{"ip", "netns", "exec", name}}, nil
}

// raise makes the bridge, on which this process has the first address.
func (s *namespaces) raise() error {
	if s.up {
		return nil
	}
	note(marked{Bridge: s.bridge})
	for _, args := range [][]string{
		{"link", "add", s.bridge, "type", "bridge"},
		{"addr", "add", fmt.Sprintf("10.77.%d.1/24", s.net), "dev", s.bridge},
		{"link", "set", s.bridge, "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	s.up = true
	return nil
}

func (s *namespaces) Open(context.Context, *Cluster) error { return nil }

// Set cuts one direction; To may be link.Any, which takes the node off the network.
func (s *namespaces) Set(d link.Direction, r link.Rule) error {
	if (r != link.Rule{Cut: true}) {
		return fmt.Errorf("namespaces only cut: %w", ErrNotHere)
	}
	from := s.namespace(d.From)
	switch {
	case from == "":
		return fmt.Errorf("no node %s here", d.From)
	case s.cut[d]:
		return nil
	case d.To == link.Any:
		s.cut[d] = true
		return ip("link", "set", from+"o", "down")
	}
	s.cut[d] = true
	return ip("-n", from, "route", "add", "blackhole", s.at[d.To]+"/32")
}

func (s *namespaces) Heal() error {
	var errs []error
	for d := range s.cut {
		from := s.namespace(d.From)
		if d.To == link.Any {
			errs = append(errs, ip("link", "set", from+"o", "up"))
		} else {
			errs = append(errs, ip("-n", from, "route", "del", "blackhole", s.at[d.To]+"/32"))
		}
		delete(s.cut, d)
	}
	return errors.Join(errs...)
}

func (s *namespaces) namespace(node string) string {
	address := s.at[node]
	for i, name := range s.names {
		if address == fmt.Sprintf("10.77.%d.%d", s.net, i+2) {
			return name
		}
	}
	return ""
}

func (s *namespaces) Close() error {
	var errs []error
	for _, name := range s.names {
		errs = append(errs, ip("netns", "del", name)) // its interfaces go with it
	}
	if s.up {
		errs = append(errs, ip("link", "del", s.bridge))
	}
	s.names, s.up = nil, false
	return errors.Join(errs...)
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
