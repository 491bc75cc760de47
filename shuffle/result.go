package shuffle

// Result says how what a chain produces may be read. The two properties are independent of each other: regions follow
// from the first, recovery from the second.
type Result struct {
	Consumption Consumption
	Retention   Retention
}

// Consumption says when a result may be read.
type Consumption uint8

const (
	// WhileProduced: consumer and producer run together.
	WhileProduced Consumption = iota
	// WhenFinished: not before the producer has finished.
	WhenFinished
)

// Retention says how often a result may be read.
type Retention uint8

const (
	// Once: what was read is gone, so a lost consumer costs its producer as well.
	Once Retention = iota
	// Again: by any number of consumers' attempts.
	Again
)

// Pipelined is the result that a Writer makes.
func Pipelined() Result { return Result{WhileProduced, Once} }

// Blocking is a result that is stored until nobody needs it any more.
func Blocking() Result { return Result{WhenFinished, Again} }

// JoinsRegion reports that producer and consumer have to run, and restart, together.
func (r Result) JoinsRegion() bool { return r.Consumption == WhileProduced }

// Progress of the attempt that produces a result.
type Progress uint8

const (
	// Producing: it runs.
	Producing Progress = iota
	// Finished: its result is complete.
	Finished
)

// admit answers a request for a partition that was given to reads consumers before.
func (r Result) admit(p Progress, reads int) Reason {
	switch {
	case r.Consumption == WhenFinished && p != Finished:
		return notYet
	case r.Retention == Once && reads > 0:
		return Gone
	}
	return none
}
