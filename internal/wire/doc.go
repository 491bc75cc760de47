// Package wire opens every network connection of the project: each listener and each dial goes through it.
//
// Today it allows loopback only, and anything else when the operator said so with --insecure, which prints a banner.
// Mutual TLS (a certificate with a role per process) replaces exactly this package's insides: callers hand over the
// Policy of their process and never see credentials.
package wire
