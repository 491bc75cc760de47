package main

import (
	"github.com/sluiceio/sluice/examples/nexmark/query"
	"github.com/sluiceio/sluice/flow"
)

func main() { flow.Main("nexmark", query.Build) }
