package flow

import "github.com/sluiceio/sluice/flow/launch"

// JobOf is what Main hands to package launch.
func JobOf[C any](name string, build func(*Pipeline, *C) error) launch.Job { return job(name, build) }
