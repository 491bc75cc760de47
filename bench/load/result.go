package main

import (
	"encoding/json"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Result is one measured run. `sluice bench` reads it.
type Result struct {
	Events  int64   `json:"events"` // indices of all kinds
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpuSeconds"`
	Rows    int64   `json:"rows"`
	Sum     uint64  `json:"sum,string"` // of the field digests
	Allocs  uint64  `json:"allocations"`
	Bytes   uint64  `json:"allocatedBytes"`
	// Resident is the largest resident memory of the process, in bytes.
	Resident int64  `json:"residentBytes"`
	Mode     string `json:"mode"`
	// Canonical is the canonical digest, of an untimed run: count, sum, xor.
	Canonical string `json:"canonical,omitempty"`
	// Oracle: the canonical digest is that of the file of expected digests.
	Oracle bool `json:"oracle,omitempty"`
	// Latency is of rows behind the time at which their event time was due, in milliseconds; only with a rate.
	Latency *Latency `json:"latencyMs,omitempty"`
}

// measure runs f and fills in what it took.
func measure(f func() error) (r Result, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, start := usage(), time.Now()
	err = f()
	r.Seconds = time.Since(start).Seconds()
	now := usage()
	r.CPU = seconds(now) - seconds(cpu)
	runtime.ReadMemStats(&after)
	r.Allocs, r.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	r.Resident = now.Maxrss << 10
	return r, err
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constants
	}
	return u
}

func seconds(u syscall.Rusage) float64 {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func (r Result) print() error { return json.NewEncoder(os.Stdout).Encode(r) }
