// Package frame is the byte layout of what a producer sends to a consumer: a header, and for records a payload of
// encoded records with the events between them. docs/format/frame.md is its page.
//
// A frame is checked in two steps, because it is touched in two places: Parse checks the header, whose own checksum
// covers it, before anything is routed by its channel number; Open checks the payload where it is decoded.
//
// Never here: channels, credit, order, the encoding of records.
//
// Concurrency: plain values and pure functions.
package frame
