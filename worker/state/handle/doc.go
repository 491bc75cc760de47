// Package handle is what operators declare and use: value, list, map, reducing and aggregating state of the current key,
// each with or without a time to live. They stand on the columns of package state.
//
// With a time to live, values carry a stamp and are absent once the stamp lies too far back, for every method at once, by
// the directory's clock, which is read once per batch of records (Directory.Now). What has expired is removed when it is
// met, and in the background by Directory.Maintain.
//
// Turning a time to live on or off is no change of type: values that were stored without a stamp are as old as their
// restore, stamps that are not needed any more are forgotten.
//
// Never here: timers (package timer), and event time: the clock is that of the machine.
//
// Concurrency: as in package state. Handles return no errors: Directory.Err has the first one.
package handle
