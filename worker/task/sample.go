package task

import (
	"bytes"
	"cmp"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/taskpb"
)

// Sample is the counters of the newest attempt of every subtask, also after its end, in the order of chain and index,
// and the memory of the process. Clocks are those that the last Sample has asked for: a loop tells when it comes to it.
func (p *Process) Sample() *taskpb.Sample {
	p.mu.Lock()
	attempts, runs := make([]*attempt, 0, len(p.mu.newest)), map[*attempt]bool{}
	for _, a := range p.mu.newest {
		attempts = append(attempts, a)
		if _, running := p.mu.running[a]; running {
			runs[a] = true
		}
	}
	p.mu.Unlock()
	slices.SortFunc(attempts, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.sub.Chain, b.sub.Chain), cmp.Compare(a.sub.Index, b.sub.Index))
	})
	s := &taskpb.Sample{HeapBytes: heapBytes(), ResidentBytes: residentBytes()}
	s.NetworkBytes, s.NetworkLimitBytes = p.cfg.Network.Memory()
	if p.cfg.Spill != nil {
		s.SpillFiles = p.cfg.Spill.Totals().Files
	}
	s.Groups = p.groups.Tell()
	for _, a := range attempts {
		s.Counters = append(s.Counters, a.counters())
		if !runs[a] {
			continue
		}
		if c := a.meter.clock.Load(); c != nil {
			c = proto.CloneOf(c)
			c.Chain, c.Index, c.Attempt = a.sub.Chain, a.sub.Index, a.sub.Attempt
			s.Clocks = append(s.Clocks, c)
		}
		a.meter.asked.Store(true)
		a.mail.Tick()
	}
	return s
}

func (a *attempt) counters() *taskpb.Counters {
	c := &taskpb.Counters{Chain: a.sub.Chain, Index: a.sub.Index, Attempt: a.sub.Attempt}
	a.meter.fill(c)
	return c
}

// heapBytes is the memory of live and not yet collected objects.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// residentBytes is the resident set of the process; 0 where the system has no /proc.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
