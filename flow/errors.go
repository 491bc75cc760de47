package flow

// ErrorPolicy says what becomes of a record that fails.
type ErrorPolicy string

const (
	// Fail fails the attempt; the job restarts by its restart strategy. The default.
	Fail ErrorPolicy = "fail"
	// Skip counts the record and drops it.
	Skip ErrorPolicy = "skip"
)
