package shuffle

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/exchangepb"
)

// inbound receives a frame as the transport delivered it: in several buffers, which whoever takes it must free.
type inbound struct{ data mem.BufferSlice }

// outbound is a frame to send. The transport frees its buffers.
type outbound struct{ data mem.BufferSlice }

// passThrough is the codec of the exchange: frames go through as they are, what consumers say is protobuf.
type passThrough struct{}

func (passThrough) Name() string { return "sluice-exchange" }

func (passThrough) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *outbound:
		return m.data, nil
	case *exchangepb.FromConsumer:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return nil, fmt.Errorf("exchange codec cannot send %T", v)
}

func (passThrough) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *inbound:
		data.Ref()
		m.data = data
		return nil
	case *exchangepb.FromConsumer:
		return proto.Unmarshal(data.Materialize(), m)
	}
	return fmt.Errorf("exchange codec cannot receive %T", v)
}
