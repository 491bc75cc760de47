package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind of a line.
type Kind string

const (
	Invoke  Kind = "invoke"
	OK      Kind = "ok"
	Fail    Kind = "fail"    // certainly without effect
	Unknown Kind = "unknown" // may have had, or may yet have, its effect
	Fault   Kind = "fault"   // injected by the nemesis
	Note    Kind = "note"
)

// Op is one line. Call joins an invocation and its completion.
type Op struct {
	Index  int             `json:"index"`
	Time   time.Duration   `json:"time"` // since the start of the recording, in nanoseconds
	Client string          `json:"client"`
	Call   int             `json:"call,omitempty"`
	Kind   Kind            `json:"kind"`
	What   string          `json:"what"`
	Value  json.RawMessage `json:"value,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Recorder appends to one history.
type Recorder struct {
	now   func() time.Time
	start time.Time

	mu struct {
		sync.Mutex
		out   io.Writer
		index int
		call  int
		err   error // the first failed write; every later line is lost too
	}
}

// New records to out with the clock now.
func New(out io.Writer, now func() time.Time) *Recorder {
	r := &Recorder{now: now, start: now()}
	r.mu.out = out
	return r
}

// Call is an invocation that waits for its completion.
type Call struct {
	r      *Recorder
	id     int
	client string
	what   string
}

// Invoke records that client asks for what with value.
func (r *Recorder) Invoke(client, what string, value any) Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.call++
	c := Call{r: r, id: r.mu.call, client: client, what: what}
	r.write(Op{Client: client, Call: c.id, Kind: Invoke, What: what, Value: encode(value)})
	return c
}

// OK completes the call with its answer.
func (c Call) OK(value any) { c.complete(OK, value, nil) }

// Fail completes a call that certainly had no effect.
func (c Call) Fail(err error) { c.complete(Fail, nil, err) }

// Unknown completes a call whose effect is open.
func (c Call) Unknown(err error) { c.complete(Unknown, nil, err) }

func (c Call) complete(k Kind, value any, err error) {
	op := Op{Client: c.client, Call: c.id, Kind: k, What: c.what}
	if value != nil {
		op.Value = encode(value)
	}
	if err != nil {
		op.Error = err.Error()
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.write(op)
}

// Fault records an injected fault or its healing.
func (r *Recorder) Fault(what, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(Op{Client: "nemesis", Kind: Fault, What: what, Value: encode(target)})
}

// Hurt records a fault, or its end.
func (r *Recorder) Hurt(what string, h Hurt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(Op{Client: "nemesis", Kind: Fault, What: what, Value: encode(h)})
}

// Note records an observation.
func (r *Recorder) Note(what string, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(Op{Client: "observer", Kind: Note, What: what, Value: encode(value)})
}

// Err is the first failure to write. A history with an error proves nothing.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// write needs r.mu.
func (r *Recorder) write(op Op) {
	if r.mu.err != nil {
		return
	}
	r.mu.index++
	op.Index, op.Time = r.mu.index, r.now().Sub(r.start)
	line, err := json.Marshal(op)
	if err == nil {
		_, err = r.mu.out.Write(append(line, '\n'))
	}
	r.mu.err = err
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(fmt.Sprintf("unencodable value: %v", err))
	}
	return b
}

// Read parses a history and checks its form: indices rise by one, every completion has an invocation, no call
// completes twice.
func Read(in io.Reader) ([]Op, error) {
	var ops []Op
	open := map[int]bool{}
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var op Op
		if err := json.Unmarshal(sc.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("history line %d: %w", len(ops)+1, err)
		}
		if op.Index != len(ops)+1 {
			return nil, fmt.Errorf("history line %d has index %d", len(ops)+1, op.Index)
		}
		if err := match(op, open); err != nil {
			return nil, fmt.Errorf("history line %d: %w", op.Index, err)
		}
		ops = append(ops, op)
	}
	return ops, sc.Err()
}

func match(op Op, open map[int]bool) error {
	switch op.Kind {
	case Invoke:
		if _, seen := open[op.Call]; seen {
			return fmt.Errorf("call %d is invoked twice", op.Call)
		}
		open[op.Call] = true
	case OK, Fail, Unknown:
		if !open[op.Call] {
			return fmt.Errorf("call %d completes without an open invocation", op.Call)
		}
		open[op.Call] = false
	case Fault, Note:
	default:
		return errors.New("unknown kind " + string(op.Kind))
	}
	return nil
}
