package concat

import (
	"encoding/binary"
	"fmt"

	"github.com/sluiceio/sluice/connector"
)

// version of the encodings below.
const version = 1

// A wrapped split has the data
//
//	part      1 byte: 0 history, 1 live
//	version   2 bytes, little endian: of the inner split
//	data      the rest: of the inner split
//
// and the inner id behind "history/" or "live/".
const headBytes = 3

var prefixes = [parts]string{"history/", "live/"}

func wrap(part byte, s connector.Split) connector.Split {
	data := make([]byte, headBytes, headBytes+len(s.Data))
	data[0] = part
	binary.LittleEndian.PutUint16(data[1:], s.Version)
	return connector.Split{ID: prefixes[part] + s.ID, Version: version, Data: append(data, s.Data...)}
}

func unwrap(s connector.Split) (part byte, inner connector.Split, err error) {
	if s.Version != version || len(s.Data) < headBytes || s.Data[0] >= parts {
		return 0, inner, fmt.Errorf("split %q is not one of two concatenated sources: version %d, %d bytes", s.ID, s.Version, len(s.Data))
	}
	part = s.Data[0]
	if n := len(prefixes[part]); len(s.ID) < n || s.ID[:n] != prefixes[part] {
		return 0, inner, fmt.Errorf("split %q does not have the name of a split of part %d", s.ID, part)
	}
	return part, connector.Split{
		ID: s.ID[len(prefixes[part]):], Version: binary.LittleEndian.Uint16(s.Data[1:]), Data: s.Data[headBytes:],
	}, nil
}

// The state of an enumerator is a byte for the version, one for the part, and what the enumerator of that part has said.

func encodeEnumeration(part byte, inner []byte) []byte {
	return append([]byte{version, part}, inner...)
}

func decodeEnumeration(b []byte) (part byte, inner []byte, err error) {
	if len(b) < 2 || b[0] != version || b[1] >= parts {
		return 0, nil, fmt.Errorf("%d bytes are not the state of two concatenated enumerators", len(b))
	}
	if len(b) == 2 {
		return b[1], nil, nil
	}
	return b[1], b[2:], nil
}
