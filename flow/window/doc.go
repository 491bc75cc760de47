// Package window says which windows a point of event time belongs to.
//
// It is pure: assigners are values, computed from the time alone, and hold no records. Tables of accumulators, firing and
// lateness live in worker/operator/window.
package window
