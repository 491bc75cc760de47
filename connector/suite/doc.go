// Package suite is the conformance suite of connectors: what the engine relies on, checked against any source or sink,
// the project's and anyone's.
//
//	func TestConformance(t *testing.T) {
//		suite.TestSource(t, suite.Source[Order]{Open: …, Want: orders, Name: Order.String})
//	}
//
// It calls a connector as the engine does, one goroutine per reader or writer, and knows nothing but the contracts in
// package connector.
package suite
