package function

import (
	"encoding/binary"
	"fmt"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/codec"
)

// splitVersion is the version of the encoding below.
const splitVersion = 1

// The one split of a source has the data
//
//	skip     uvarint: records of the call at offset that were delivered
//	number   uvarint: records delivered before that call
//	schema   uvarint length, text: that of the offset's type
//	offset   the rest, in the encoding of flow/codec
const splitID = "function"

// position is where a source goes on.
type position[Off any] struct {
	offset       Off
	skip, number uint64
}

func encode[Off any](c *codec.Codec[Off], p position[Off]) (connector.Split, error) {
	data := binary.AppendUvarint(nil, p.skip)
	data = binary.AppendUvarint(data, p.number)
	data = binary.AppendUvarint(data, uint64(len(c.Schema())))
	data, err := c.Append(append(data, c.Schema()...), &p.offset)
	if err != nil {
		return connector.Split{}, fmt.Errorf("encode the offset: %w", err)
	}
	return connector.Split{ID: splitID, Version: splitVersion, Data: data}, nil
}

func decode[Off any](c *codec.Codec[Off], s connector.Split) (p position[Off], err error) {
	if s.ID != splitID || s.Version != splitVersion {
		return p, fmt.Errorf("split %q, version %d, is not of a function", s.ID, s.Version)
	}
	var schema uint64
	rest := s.Data
	for _, v := range []*uint64{&p.skip, &p.number, &schema} {
		var n int
		if *v, n = binary.Uvarint(rest); n <= 0 {
			return p, fmt.Errorf("the position of split %q is cut short", s.ID)
		}
		rest = rest[n:]
	}
	if schema > uint64(len(rest)) || string(rest[:schema]) != c.Schema() {
		return p, fmt.Errorf("the offset of split %q is of another type than %s", s.ID, c.Schema())
	}
	rest, err = c.Decode(rest[schema:], &p.offset)
	if err != nil {
		return p, fmt.Errorf("the offset of split %q: %w", s.ID, err)
	}
	if len(rest) > 0 {
		return p, fmt.Errorf("%d bytes behind the offset of split %q", len(rest), s.ID)
	}
	return p, nil
}
