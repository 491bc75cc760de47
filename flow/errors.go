package flow

import "github.com/sluiceio/sluice/connector"

// Fatal marks err as one that trying again cannot cure: it fails the job at once, whatever the error policy and the
// restart strategy say. Fatal(nil) is nil.
func Fatal(err error) error { return connector.Fatal(err) }

// ErrorPolicy says what becomes of a record that fails.
type ErrorPolicy string

const (
	// Fail fails the attempt; the job restarts by its restart strategy. The default.
	Fail ErrorPolicy = "fail"
	// Skip counts the record and drops it.
	Skip ErrorPolicy = "skip"
)
