//go:build !unix

package ratio

import "time"

// processCPU falls back to a clock that at least moves with the work.
func processCPU() time.Duration { return time.Duration(time.Now().UnixNano()) }
