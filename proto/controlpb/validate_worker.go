package controlpb

import "fmt"

// Validate checks a request for the output of a job.
func (r *LogsRequest) Validate() error {
	if err := required("job", r.GetJob()); err != nil {
		return err
	}
	if r.TailBytes < 0 {
		return fmt.Errorf("tail_bytes: %d is negative", r.TailBytes)
	}
	return nil
}
