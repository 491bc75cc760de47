// Command protogen compiles the wire contracts under proto/ into Go.
//
// It is protoc without protoc: the .proto files are parsed by protocompile and handed to the pinned protoc-gen-go and
// protoc-gen-go-grpc over the ordinary plugin protocol, so a fresh machine needs nothing but Go.
package main
