package chain

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// Code tells the code of a Push on the stack.
type Code struct {
	pc uintptr
	// method is the name of the method that the push is a value of; empty: it is none, or one of a generic type, whose
	// values are closures without a name. The wrapper that such a value points to is on no stack, and the address of the
	// method itself is not to be had.
	method string
}

// CodeOf looks at a push.
func CodeOf(push any) Code {
	c := Code{pc: reflect.ValueOf(push).Pointer()}
	if f := runtime.FuncForPC(c.pc); f != nil {
		if method, ok := strings.CutSuffix(f.Name(), "-fm"); ok {
			c.method = method
		}
	}
	return c
}

func (c Code) is(f *runtime.Frame) bool {
	return f.Entry == c.pc || c.method != "" && f.Function == c.method
}

// receiver is how the names of the methods of an operator begin, up to the dot before the method: "path.(*name[...]).".
// Empty: it has no pointer methods.
func receiver(o Operator) string {
	t := reflect.TypeOf(o)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Name() == "" {
		return ""
	}
	name, _, generic := strings.Cut(t.Elem().Name(), "[")
	if generic {
		name += "[...]"
	}
	return t.Elem().PkgPath() + ".(*" + name + ")."
}

// trail is the way along a stack to where Blame stands.
type trail struct {
	outer   string // function of the last frame
	entered string // the last one that was a push
}

// pushes reports whether f is the frame of a push of n. Pushes that are methods of a generic type are told by their
// receiver: what enters the operator from elsewhere through a method that is not exported, or through the same one again.
// (The exported ones are those of the loop, which knows by itself whom it has called.)
func (n *Node) pushes(f *runtime.Frame, from trail) bool {
	if slices.ContainsFunc(n.Codes, func(c Code) bool { return c.is(f) }) {
		return true
	}
	method, ok := strings.CutPrefix(f.Function, n.receiver)
	return ok && n.receiver != "" && method[:min(1, len(method))] >= "a" && (f.Function == from.entered || !strings.HasPrefix(from.outer, n.receiver))
}

// Blame finds the operator that was at work when a panic unwound the stack pcs (innermost first). Tracking it while
// records flow would cost every record; instead each push of the chain is looked for among the frames, from the head
// inwards: the last one found was at work. Where two branches run the same code, the note of the fan-out decides. What
// happened before the first push, a record that was decoded or a key that was taken, is the head's.
func (c *Chain) Blame(pcs []uintptr) string {
	at := c.active
	if at < 0 {
		at = c.root
	}
	var from trail
	for _, f := range framesOf(pcs) {
		if next := c.find(at, &f, from); next >= 0 {
			at, from.entered = next, f.Function
		}
		from.outer = f.Function
	}
	if at = max(0, at); at < len(c.nodes) {
		return c.nodes[at].ID
	}
	return ""
}

// framesOf are the frames of a stack, outermost first.
func framesOf(pcs []uintptr) []runtime.Frame {
	var out []runtime.Frame
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		out = append(out, f)
		if !more {
			slices.Reverse(out)
			return out
		}
	}
}

// find is the node behind at whose push is f, or -1.
func (c *Chain) find(at int, f *runtime.Frame, from trail) int {
	first, end := 0, len(c.nodes)
	if at >= 0 {
		n := &c.nodes[at]
		if n.Runtime != nil && len(n.Kids) > 1 {
			if kid := at + n.Kids[min(n.Runtime.branch, len(n.Kids)-1)]; c.nodes[kid].pushes(f, from) {
				return kid
			}
		}
		first, end = at+1, at+n.Size
	}
	for i := first; i < end; i++ {
		if c.nodes[i].pushes(f, from) {
			return i
		}
	}
	return -1
}
