package exchangepb

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

func request(change func(*PartitionRequest)) *FromConsumer {
	r := &PartitionRequest{Protocol: Protocol, Job: "j-1", Credit: 2, FrameBytes: 32 << 10}
	change(r)
	return &FromConsumer{Message: &FromConsumer_Request{Request: r}}
}

func TestValidateNamesTheFieldThatNoConsumerSends(t *testing.T) {
	credits := func(n int, frames int32) *FromConsumer {
		c := &Credits{}
		for range n {
			c.Credits = append(c.Credits, &Credit{Channel: 1, Frames: frames})
		}
		return &FromConsumer{Message: &FromConsumer_Credits{Credits: c}}
	}
	closed := func(r Refusal, n int) *FromConsumer {
		return &FromConsumer{Message: &FromConsumer_Cancel{Cancel: &Closed{Refusal: r, Message: strings.Repeat("x", n)}}}
	}
	for _, c := range []struct {
		want string // part of the error; "": valid
		m    *FromConsumer
	}{
		{"", request(func(*PartitionRequest) {})},
		{"", request(func(r *PartitionRequest) { r.Protocol = 99 })}, // answered with a refusal
		{"request.job", request(func(r *PartitionRequest) { r.Job = "" })},
		{"request.job", request(func(r *PartitionRequest) { r.Job = strings.Repeat("j", 300) })},
		{"request.region", request(func(r *PartitionRequest) { r.Region = -1 })},
		{"request.edge", request(func(r *PartitionRequest) { r.Edge = -1 })},
		{"request.producer", request(func(r *PartitionRequest) { r.Producer = -1 })},
		{"request.consumer", request(func(r *PartitionRequest) { r.Consumer = -1 })},
		{"request.credit", request(func(r *PartitionRequest) { r.Credit = 0 })},
		{"request.credit", request(func(r *PartitionRequest) { r.Credit = MaxCredit + 1 })},
		{"request.frame_bytes", request(func(r *PartitionRequest) { r.FrameBytes = 100 })},
		{"request.frame_bytes", request(func(r *PartitionRequest) { r.FrameBytes = 1 << 30 })},
		{"", credits(3, 1)},
		{"credits.credits: 0", credits(0, 1)},
		{"credits.credits: 8193", credits(MaxCredits+1, 1)},
		{"credits.credits[0].frames", credits(1, 0)},
		{"credits.credits[0].frames", credits(1, -5)},
		{"", closed(Refusal_REFUSAL_NONE, 0)},
		{"cancel.refusal", closed(99, 0)},
		{"cancel.message", closed(Refusal_REFUSAL_FAILED, MaxMessage+1)},
		{"message", &FromConsumer{}},
		{"request.job", &FromConsumer{Message: &FromConsumer_Request{}}},
	} {
		err := c.m.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%v: got error %v, want one about %q", c.m, err, c.want)
		}
	}
}

// What passes Validate stays within the limits that the producer's memory relies on, whatever the bytes.
func FuzzFromConsumer(f *testing.F) {
	for _, m := range []*FromConsumer{
		request(func(*PartitionRequest) {}),
		{Message: &FromConsumer_Credits{Credits: &Credits{Credits: []*Credit{{Channel: 7, Frames: 3}}}}},
		{Message: &FromConsumer_Cancel{Cancel: &Closed{Channel: 7, Refusal: Refusal_REFUSAL_FAILED, Message: "x"}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m FromConsumer
		if proto.Unmarshal(b, &m) != nil || m.Validate() != nil {
			return
		}
		switch x := m.Message.(type) {
		case *FromConsumer_Request:
			if r := x.Request; r.Credit <= 0 || r.FrameBytes < MinFrameBytes || r.FrameBytes > MaxFrameBytes || r.Edge < 0 {
				t.Fatalf("accepted %v", &m)
			}
		case *FromConsumer_Credits:
			for _, c := range x.Credits.Credits {
				if c.Frames <= 0 || c.Frames > MaxCredit {
					t.Fatalf("accepted %v", &m)
				}
			}
		case *FromConsumer_Cancel:
			if len(x.Cancel.Message) > MaxMessage {
				t.Fatalf("accepted %v", &m)
			}
		default:
			t.Fatalf("accepted %v", &m)
		}
	})
}

func read(change func(*ReadRequest)) *FromReader {
	r := &ReadRequest{Protocol: Protocol, Worker: "w-1", Job: "j-1", Attempt: 1, Chunks: 2}
	change(r)
	return &FromReader{Message: &FromReader_Request{Request: r}}
}

func TestWhatReadersSayIsJudgedBeforeUse(t *testing.T) {
	more := func(n int32) *FromReader {
		return &FromReader{Message: &FromReader_More{More: &ReadMore{Chunks: n}}}
	}
	for _, c := range []struct {
		want string // part of the error; "": valid
		m    *FromReader
	}{
		{"", read(func(*ReadRequest) {})},
		{"", read(func(r *ReadRequest) { r.Protocol = 99 })}, // answered with a refusal
		{"", read(func(r *ReadRequest) { r.Chunks, r.Block = 0, 1<<40 })},
		{"request.job", read(func(r *ReadRequest) { r.Job = "" })},
		{"request.job", read(func(r *ReadRequest) { r.Job = strings.Repeat("j", 300) })},
		{"request.worker", read(func(r *ReadRequest) { r.Worker = strings.Repeat("w", 300) })},
		{"request.region", read(func(r *ReadRequest) { r.Region = -1 })},
		{"request.edge", read(func(r *ReadRequest) { r.Edge = -1 })},
		{"request.producer", read(func(r *ReadRequest) { r.Producer = -1 })},
		{"request.attempt", read(func(r *ReadRequest) { r.Attempt = 0 })},
		{"request.consumer", read(func(r *ReadRequest) { r.Consumer = -1 })},
		{"request.block", read(func(r *ReadRequest) { r.Block = -1 })},
		{"request.chunks", read(func(r *ReadRequest) { r.Chunks = -1 })},
		{"request.chunks", read(func(r *ReadRequest) { r.Chunks = MaxChunks + 1 })},
		{"", more(1)},
		{"more.chunks", more(0)},
		{"more.chunks", more(MaxChunks + 1)},
		{"message", &FromReader{}},
		{"request.job", &FromReader{Message: &FromReader_Request{}}},
	} {
		err := c.m.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%v: got error %v, want one about %q", c.m, err, c.want)
		}
	}
	if (&ReadEnd{Blocks: -1}).Validate() == nil || (&ReadEnd{Blocks: 3}).Validate() != nil {
		t.Error("an end with fewer blocks than none")
	}
}

// What passes Validate stays within the limits that the agent's memory relies on, whatever the bytes.
func FuzzFromReader(f *testing.F) {
	for _, m := range []*FromReader{read(func(*ReadRequest) {}), {Message: &FromReader_More{More: &ReadMore{Chunks: 3}}}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m FromReader
		if proto.Unmarshal(b, &m) != nil || m.Validate() != nil {
			return
		}
		switch x := m.Message.(type) {
		case *FromReader_Request:
			if r := x.Request; r.Chunks < 0 || r.Chunks > MaxChunks || r.Block < 0 || r.Consumer < 0 || len(r.Job) > maxJobIDLength {
				t.Fatalf("accepted %v", &m)
			}
		case *FromReader_More:
			if x.More.Chunks <= 0 || x.More.Chunks > MaxChunks {
				t.Fatalf("accepted %v", &m)
			}
		default:
			t.Fatalf("accepted %v", &m)
		}
	})
}

func check(change func(*CheckRequest)) *CheckRequest {
	r := &CheckRequest{Protocol: Protocol, Worker: "w-1", Job: "j-1", Partitions: []*CheckedPartition{{Attempt: 1}, {Producer: 3, Attempt: 2}}}
	change(r)
	return r
}

func TestWhatIsToBeCheckedIsJudgedBeforeUse(t *testing.T) {
	for _, c := range []struct {
		want string // part of the error; "": valid
		r    *CheckRequest
	}{
		{"", check(func(*CheckRequest) {})},
		{"", check(func(r *CheckRequest) { r.Protocol = 99 })}, // answered with a refusal
		{"job", check(func(r *CheckRequest) { r.Job = "" })},
		{"worker", check(func(r *CheckRequest) { r.Worker = strings.Repeat("w", 300) })},
		{"partitions", check(func(r *CheckRequest) { r.Partitions = nil })},
		{"partitions", check(func(r *CheckRequest) { r.Partitions = make([]*CheckedPartition, MaxChecked+1) })},
		{"partitions[1]", check(func(r *CheckRequest) { r.Partitions[1].Region = -1 })},
		{"partitions[1]", check(func(r *CheckRequest) { r.Partitions[1].Edge = -1 })},
		{"partitions[0]", check(func(r *CheckRequest) { r.Partitions[0].Producer = -1 })},
		{"partitions[0].attempt", check(func(r *CheckRequest) { r.Partitions[0] = nil })},
	} {
		err := c.r.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%v: got error %v, want one about %q", c.r, err, c.want)
		}
	}
	for _, lost := range [][]int32{{3}, {-1}, {1, 1}, {2, 0}} {
		if (&CheckAnswer{Lost: lost}).Validate(3) == nil {
			t.Errorf("%v of 3 accepted", lost)
		}
	}
	if err := (&CheckAnswer{Lost: []int32{0, 2}}).Validate(3); err != nil {
		t.Error(err)
	}
}

// What passes Validate names positions that whoever asked can look up, whatever the bytes.
func FuzzChecks(f *testing.F) {
	for _, m := range []proto.Message{check(func(*CheckRequest) {}), &CheckAnswer{Lost: []int32{0, 1}}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r CheckRequest
		if proto.Unmarshal(b, &r) == nil && r.Validate() == nil && (len(r.Partitions) > MaxChecked || len(r.Job) > maxJobIDLength) {
			t.Fatalf("accepted %v", &r)
		}
		var a CheckAnswer
		if proto.Unmarshal(b, &a) != nil || a.Validate(MaxChecked) != nil {
			return
		}
		for _, i := range a.Lost {
			if i < 0 || i >= MaxChecked {
				t.Fatalf("accepted %v", &a)
			}
		}
	})
}
