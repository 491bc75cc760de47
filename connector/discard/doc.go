// Package discard is a sink that counts records and drops them, for benchmarks and tests.
package discard
