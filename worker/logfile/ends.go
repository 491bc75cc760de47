package logfile

import (
	"bytes"
	"strings"
	"sync"
)

// Bounds of what is kept of standard error, in bytes.
const (
	TailBytes  = 8 << 10
	CrashBytes = 8 << 10
)

// crashMarks begin the first line of a death that Go explains.
var crashMarks = []string{
	"panic: ", "fatal error: ", "unexpected fault address ", "runtime: goroutine stack exceeds",
	"SIGSEGV: ", "SIGBUS: ", "SIGABRT: ", "SIGILL: ", "SIGFPE: ", "SIGQUIT: ", "SIGTRAP: ", "SIGSYS: ",
}

// Tail keeps the end of standard error, and the beginning of a crash: with many goroutines the two are far apart.
type Tail struct {
	mu struct {
		sync.Mutex
		last  []byte
		line  []byte // the unfinished line
		crash []byte
	}
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.last = append(t.mu.last, p...)
	if n := len(t.mu.last) - TailBytes; n > 0 {
		t.mu.last = append(t.mu.last[:0], t.mu.last[n:]...)
	}
	t.scan(p)
	return len(p), nil
}

// scan keeps the newest crash: from its first line on, as far as the bound allows. The lock is held.
func (t *Tail) scan(p []byte) {
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		t.mu.line = append(t.mu.line, line[:min(len(line), CrashBytes-len(t.mu.line))]...)
		if !whole {
			return
		}
		if marked(t.mu.line) {
			t.mu.crash = t.mu.crash[:0]
		}
		t.mu.crash = t.grown()
		t.mu.line, p = t.mu.line[:0], rest
	}
}

// grown is the crash with the present line, if it belongs to one. The lock is held.
func (t *Tail) grown() []byte {
	if len(t.mu.crash) == 0 && !marked(t.mu.line) || len(t.mu.crash)+len(t.mu.line) >= CrashBytes {
		return t.mu.crash
	}
	return append(append(t.mu.crash, t.mu.line...), '\n')
}

func marked(line []byte) bool {
	for _, m := range crashMarks {
		if bytes.HasPrefix(line, []byte(m)) {
			return true
		}
	}
	return false
}

// Text returns both parts as valid UTF-8: a protobuf string must be.
func (t *Tail) Text() (last, crash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.mu.last), "?"), strings.ToValidUTF8(string(t.grown()), "?")
}

// Head keeps the beginning of an output.
type Head struct {
	limit int // bytes

	mu struct {
		sync.Mutex
		data bytes.Buffer
	}
}

// NewHead keeps so many bytes.
func NewHead(limit int) *Head { return &Head{limit: limit} }

// Write never fails.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.data.Write(p[:min(len(p), h.limit-h.mu.data.Len())])
	return len(p), nil
}

// Text is valid UTF-8 within the limit: a character that the limit has cut is left out.
func (h *Head) Text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(h.mu.data.String(), "?")
}
