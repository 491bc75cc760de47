// Package codec turns values of Go types into bytes and back, and keys into hashes.
//
// A Codec is compiled once per type from its structure: a list of operations with the offsets of fields, walked for
// every value. What it writes has no field tags: both ends of an exchange are built from the same binary. Bytes that
// outlive a binary are stored beside the text of their schema, and Migrating compiles that text against the type of
// today: fields that were added or removed, or moved, are no obstacle; a changed type is an error.
//
// The order in which a type finds its encoding: a codec registered for it, proto.Message, time.Time,
// encoding.BinaryAppender or BinaryMarshaler with BinaryUnmarshaler, its structure. What has none (functions,
// channels, unexported fields, interfaces without variants, types that contain themselves) is E008, with the path to
// the field. Nothing is left out silently: a field that should be left out says so, with the tag `flow:"-"`. A field
// keeps its name in the schema through a rename by the tag `flow:"oldname"`.
//
// The byte formats are docs/format/codec.md and docs/format/keyhash.md.
//
// Never here: framing, checksums and compression (shuffle and snapshot do that), and anything that depends on the
// process, like maphash.
//
// Concurrency: a Registry is filled by one goroutine and then only read. A Codec, a Decoder and a hash function may
// be used by any number of goroutines.
package codec
