package main

import (
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/connector/file"
	"github.com/sluiceio/sluice/flow"
)

// Config holds the parameters of the job.
type Config struct {
	Input string `flag:"input" default:"examples/wordcount/data" help:"text file, directory or glob"`
	Out   string `flag:"out" default:"wordcount-out" help:"directory of the part files: word|count"`
	Rate  int    `flag:"rate" default:"0" help:"lines per second of every reading subtask; 0: full speed"`
}

func build(p *flow.Pipeline, cfg *Config) error {
	p.From("lines", file.Lines(cfg.Input, file.Rate(cfg.Rate))).
		FlatMapSeq(strings.FieldsSeq).
		KeyBy(flow.Self).
		Count().ID("count").
		To("out", file.Text(cfg.Out, func(row []byte, c flow.KV[string, int64]) []byte {
			return strconv.AppendInt(append(append(row, c.Key...), '|'), c.Value, 10)
		}))
	return nil
}

func main() { flow.Main("wordcount", build) }
