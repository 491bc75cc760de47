// Package exchangepb is the control half of the record exchange between task processes: the messages that open, grant,
// close and fail channels. Records themselves travel beside them as frames of their own format.
//
// No logic lives here beyond Validate. Messages are values; whoever holds one may read it from any goroutine as long as
// nobody writes.
package exchangepb
