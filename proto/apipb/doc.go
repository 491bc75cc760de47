// Package apipb is what clients and coordinators say to each other: the generated messages and services of api.proto,
// the Validate methods that a receiver calls before it trusts a message, and the coded errors of the API's edge.
//
// Nothing here decides anything: no retry, no default, no formatting for people. Messages are values; whoever holds
// one may read it from any goroutine as long as nobody writes it.
package apipb
