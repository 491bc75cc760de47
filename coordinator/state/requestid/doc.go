// Package requestid says what the id of a client's request tells, and whether two requests are the same.
package requestid
