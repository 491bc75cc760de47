package spawn

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// OOMWatch knows whether the system has just killed something in this worker's control group for want of memory. It is
// how a SIGKILL of the kernel is told from one of a person.
type OOMWatch struct {
	files []string

	mu struct {
		sync.Mutex
		before [oomWindow]int64 // what Run has read last, oldest first
	}
}

// The counters are read once a second; a death belongs to what they have gained since the oldest of so many readings.
const (
	oomWindow   = 3
	oomInterval = time.Second
)

// NewOOMWatch finds the counters of both versions of control groups; without any nothing ever happened.
func NewOOMWatch() *OOMWatch {
	o := &OOMWatch{}
	if data, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		o.files = oomFiles(data)
	}
	now := o.kills()
	for i := range o.mu.before {
		o.mu.before[i] = now
	}
	return o
}

// Run reads the counters until ctx is done.
func (o *OOMWatch) Run(ctx context.Context) error {
	ticker := time.NewTicker(oomInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			now := o.kills()
			o.mu.Lock()
			copy(o.mu.before[:], o.mu.before[1:])
			o.mu.before[oomWindow-1] = now
			o.mu.Unlock()
		case <-ctx.Done():
			return nil
		}
	}
}

// Happened reports whether something was killed within the last seconds.
func (o *OOMWatch) Happened() bool {
	now := o.kills()
	o.mu.Lock()
	defer o.mu.Unlock()
	return now > o.mu.before[0]
}

// oomFiles turns /proc/self/cgroup into the files that count kills.
func oomFiles(cgroups []byte) []string {
	var files []string
	lines := bufio.NewScanner(bytes.NewReader(cgroups))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0":
			files = append(files, path.Join("/sys/fs/cgroup", fields[2], "memory.events"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			files = append(files, path.Join("/sys/fs/cgroup/memory", fields[2], "memory.oom_control"))
		}
	}
	return files
}

// kills is the sum of the counters. A worker in the root group has none of its own and reads the machine's.
func (o *OOMWatch) kills() int64 {
	var sum int64
	found := false
	for _, name := range o.files {
		if data, err := os.ReadFile(name); err == nil {
			sum += oomKills(data)
			found = true
		}
	}
	if found {
		return sum
	}
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0 // another system
	}
	return oomKills(data)
}

// oomKills reads the line "oom_kill N".
func oomKills(data []byte) int64 {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if number, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}
