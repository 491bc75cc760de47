package artifact

import (
	"encoding/hex"
	"fmt"
	"hash"
)

// Digest names an artifact: the SHA-256 of its bytes in lower-case hex. A value made by ParseDigest is safe as a file name.
type Digest string

const digestLen = 64

// ParseDigest accepts exactly 64 lower-case hex digits.
func ParseDigest(s string) (Digest, error) {
	if len(s) != digestLen {
		return "", fmt.Errorf("digest %.80q: %d characters, want %d lower-case hex digits (SHA-256)", s, len(s), digestLen)
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", fmt.Errorf("digest %.80q: not lower-case hex", s)
		}
	}
	return Digest(s), nil
}

func digestOf(h hash.Hash) Digest { return Digest(hex.EncodeToString(h.Sum(nil))) }

// Short is the beginning of the digest, for messages.
func (d Digest) Short() string { return string(d[:min(12, len(d))]) }
