package requestid

import (
	"crypto/sha256"
	"strconv"

	"google.golang.org/protobuf/proto"
)

// Fingerprint is the same for requests of one kind with one content, on every node.
func Fingerprint(kind string, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append([]byte(kind), 0), m)
	if err != nil {
		// Only a text that is not UTF-8 can fail, and commands with one were refused.
		b = []byte(kind)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// Time is the time in a UUID of version 7, in microseconds since the Unix epoch. Ids of other kinds carry none, and are new
// to the cluster once it has forgotten them.
func Time(id string) (micros int64, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[14] != '7' {
		return 0, false
	}
	ms, err := strconv.ParseUint(id[:8]+id[9:13], 16, 64)
	return int64(ms) * 1000, err == nil
}
