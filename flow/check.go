package flow

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// fault records an error of the plan. All of them are reported together.
func (p *Pipeline) fault(code, where, message string, hints ...string) {
	p.diags = append(p.diags, &jobpb.Diagnostic{Code: code, Message: message, Where: where, Hints: hints})
}

// typeFault records a type that cannot be a key, or cannot be encoded: once, at the first place that has it.
func (p *Pipeline) typeFault(where string, err error) {
	code, message := codec.CodeNoCodec, err.Error()
	var hints []string
	if t, ok := errors.AsType[*codec.TypeError](err); ok {
		code, message = t.Code, t.Path+": "+t.Reason
		if t.Hint != "" {
			hints = append(hints, t.Hint)
		}
	}
	for _, d := range p.diags {
		if d.Code == code && d.Message == message {
			return
		}
	}
	p.fault(code, where, message, hints...)
}

// compiled is a codec, or the reason why there is none.
type compiled[T any] struct {
	codec *codec.Codec[T]
	err   error
}

// codecOf compiles the codec of T once per pipeline. Call it when the graph is complete: registrations may come late.
func codecOf[T any](p *Pipeline) (*codec.Codec[T], error) {
	t := reflect.TypeFor[T]()
	if c, ok := p.codecs[t].(compiled[T]); ok {
		return c.codec, c.err
	}
	c, err := codec.Of[T](p.registry)
	p.codecs[t] = compiled[T]{c, err}
	return c, err
}

// ours reports whether a function belongs to this package or its test kit, so that a place in it means nothing to a user.
func ours(function string) bool {
	return strings.HasPrefix(function, "github.com/sluiceio/sluice/flow.") ||
		strings.HasPrefix(function, "github.com/sluiceio/sluice/flow/flowtest.")
}

// caller is the place in the user's source that called this package: directory, file and line of the first frame outside it.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !ours(f.Function) {
			return place(f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// panicPlace is the place in the user's source where the panic that is being recovered began.
func panicPlace() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	inPanic := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			inPanic = inPanic || f.Function == "runtime.gopanic"
		case inPanic && !ours(f.Function):
			return place(f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// place keeps the last directory and the file name of a path: the rest differs between machines.
func place(file string, line int) string {
	if i := strings.LastIndexByte(file, '/'); i > 0 {
		file = file[strings.LastIndexByte(file[:i], '/')+1:]
	}
	return fmt.Sprintf("%s:%d", file, line)
}
