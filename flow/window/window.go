package window

import "github.com/sluiceio/sluice/flow/element"

// Window is a span of event time: Start is inside, End is not.
type Window struct{ Start, End element.Time }
