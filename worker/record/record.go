package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// version of the form itself.
const version = 1

// ErrCorrupt says that a file is not what was written.
var ErrCorrupt = errors.New("corrupt record")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the bytes of a file of this kind, a word.
func Encode(kind string, value any) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	b := fmt.Appendf(nil, "%s %d\n%s\n", kind, version, body)
	return fmt.Appendf(b, "crc32c %08x\n", crc32.Checksum(b, castagnoli)), nil
}

// Decode checks kind, version and checksum and returns the JSON.
func Decode(kind string, data []byte) ([]byte, error) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines) != 4 || len(lines[3]) != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not three lines", ErrCorrupt, len(data))
	}
	sum := crc32.Checksum(data[:len(lines[0])+len(lines[1])], castagnoli)
	if want := fmt.Sprintf("crc32c %08x\n", sum); string(lines[2]) != want {
		return nil, fmt.Errorf("%w: checksum differs", ErrCorrupt)
	}
	if want := fmt.Sprintf("%s %d\n", kind, version); string(lines[0]) != want {
		return nil, fmt.Errorf("%w: begins with %q, expected %q", ErrCorrupt, lines[0], want)
	}
	return bytes.TrimSuffix(lines[1], []byte("\n")), nil
}
