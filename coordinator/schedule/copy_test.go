package schedule

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluiceio/sluice/coordinator/schedule/glance"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// fill gives every field of a message a value, so that a copy which forgets one differs.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList() && f.Message() != nil:
			m.Mutable(f).List().AppendMutable()
		case f.Message() != nil:
			m.Mutable(f)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(1))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(1))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(1))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		}
	}
}

func TestReportsAndDiscoveriesLoseNoFieldOnTheirWay(t *testing.T) {
	u := &taskpb.SubtaskUpdate{}
	fill(u.ProtoReflect())
	if got := glance.WellFormed(u); !proto.Equal(got, u) {
		t.Errorf("a report became %v, it was %v", got, u)
	}
	d := &taskpb.SplitsDiscovered{}
	fill(d.ProtoReflect())
	d.Offset = 0
	got := beyond(d, 1)
	got.Offset, got.Splits = d.Offset, d.Splits
	if !proto.Equal(got, d) {
		t.Errorf("a discovery became %v, it was %v", got, d)
	}
}
