package stored

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// The service of the agent. Its messages towards the reader begin with a byte that says what they are.
const (
	serviceName = "sluice.exchange.Results"
	streamName  = "Read"
	methodName  = "/" + serviceName + "/" + streamName
	checkName   = "Check"
	checkMethod = "/" + serviceName + "/" + checkName

	kindChunk = 1 // a part of the data file
	kindEnd   = 2 // exchangepb.ReadEnd

	maxRequest = 8 << 10 // bytes of one message of a reader
)

// inbound receives a message as the transport delivered it: in several buffers, which whoever takes it must free.
type inbound struct{ data mem.BufferSlice }

// outbound is a message to send. The transport frees its buffers.
type outbound struct{ data mem.BufferSlice }

// passThrough is the codec of the service: what lies in files goes through as it is, everything else is protobuf.
type passThrough struct{}

func (passThrough) Name() string { return "sluice-results" }

func (passThrough) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *outbound:
		return m.data, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return nil, fmt.Errorf("codec of stored results cannot send %T", v)
}

func (passThrough) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *inbound:
		data.Ref()
		m.data = data
		return nil
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), m)
	}
	return fmt.Errorf("codec of stored results cannot receive %T", v)
}
