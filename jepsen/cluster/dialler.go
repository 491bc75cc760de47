package cluster

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/jepsen/cluster/link"
)

// dialler finds the node whose process, or a task process of which, has the given end of a connection on this machine. It reads
// /proc; where that is missing, and for clients, it is link.Any.
func (c *Cluster) dialler(remote string) string {
	inode, ok := socketOf(remote)
	if !ok {
		return link.Any
	}
	want := "socket:[" + inode + "]"
	for _, n := range c.Nodes() {
		pid := n.PID()
		if pid == 0 {
			continue
		}
		pids := []int{pid}
		if n.Role() == Worker {
			if tasks, err := n.Tasks(); err == nil {
				for _, t := range tasks {
					pids = append(pids, t.PID)
				}
			}
		}
		for _, pid := range pids {
			if holds(pid, want) {
				return n.Name()
			}
		}
	}
	return link.Any
}

// socketOf finds the inode of the socket with a local address of IPv4.
func socketOf(address string) (inode string, ok bool) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().Is4() {
		return "", false
	}
	ip := at.Addr().Unmap().As4()
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), at.Port())
	raw, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(raw)) {
		// sl local rem st tx:rx tr:when retrnsmt uid timeout inode
		if f := strings.Fields(line); len(f) > 9 && f[1] == want {
			return f[9], true
		}
	}
	return "", false
}

// holds reports whether a process has an open descriptor of that name.
func holds(pid int, want string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, e := range entries {
		if name, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && name == want {
			return true
		}
	}
	return false
}
