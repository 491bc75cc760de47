package flow

import (
	"fmt"
	"os"
)

// NoConfig is for jobs without parameters.
type NoConfig struct{}

// Build makes the pipeline of a job and checks it. Main calls it, and so may tests.
func Build[C any](name string, cfg *C, build func(*Pipeline, *C) error) (*Pipeline, error) {
	p := New(name)
	if err := build(p, cfg); err != nil {
		return nil, err
	}
	return p, nil
}

// Main is the entry point of every job binary.
func Main[C any](name string, build func(p *Pipeline, cfg *C) error) {
	if _, err := Build(name, new(C), build); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}
