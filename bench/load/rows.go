package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"github.com/sluiceio/sluice/bench/cost"
	"github.com/sluiceio/sluice/examples/nexmark/query"
	"github.com/sluiceio/sluice/flow"
)

// rows runs the query with all strings into files, and prints the canonical digest of what is in them.
func (o *options) rows() error {
	r, err := o.canonicalRun()
	if err != nil {
		return err
	}
	return r.print()
}

func (o *options) canonicalRun() (_ Result, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := o.embed(nil, func(p *flow.Pipeline) error { return query.Build(p, o.config(dir)) })
	if err != nil {
		return r, err
	}
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		return r, err
	}
	var c cost.Canon
	for _, p := range parts {
		if err := addFile(&c, p); err != nil {
			return r, err
		}
	}
	return Result{Events: r.Events, Rows: c.Count, Canonical: c.String(), Mode: r.Mode}, nil
}

func addFile(c *cost.Canon, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		c.Add(lines.Bytes())
	}
	return lines.Err()
}
