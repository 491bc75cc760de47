package chunk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// facts is what a chain says, as plain Go.
type facts map[fact]string

type fact struct {
	group           int
	space, key, sub string
	state           int
}

func (f facts) apply(e Entry) {
	switch e.Op {
	case Put:
		f[fact{e.Group, string(e.Space), string(e.Key), string(e.Sub), e.State}] = string(e.Value)
	case Delete:
		delete(f, fact{e.Group, string(e.Space), string(e.Key), string(e.Sub), e.State})
	case Drop:
		maps.DeleteFunc(f, func(k fact, _ string) bool { return k.group == e.Group && k.space == string(e.Space) })
	}
}

func opened(t interface{ Fatal(...any) }, b []byte) *Reader {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func chunkOf(t interface{ Fatal(...any) }, h Header, entries []Entry) *Reader {
	w, err := NewWriter(h)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w.Add, entries)
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return opened(t, b.Bytes())
}

func says(t interface{ Fatal(...any) }, chain ...*Reader) facts {
	f := facts{}
	for _, r := range chain {
		for e, err := range r.Read(0, r.header.MaxParallelism) {
			if err != nil {
				t.Fatal(err)
			}
			f.apply(e)
		}
	}
	return f
}

func merged(t interface{ Fatal(...any) }, o MergeOptions, chain ...*Reader) *Reader {
	var b bytes.Buffer
	stats, err := Merge(&b, chain, o)
	if err != nil {
		t.Fatal(err)
	}
	r := opened(t, b.Bytes())
	if n, err := r.Verify(); err != nil || n != stats.Written || stats.Bytes != int64(b.Len()) || !r.header.Sorted {
		t.Fatal("merged chunk: ", n, stats, err)
	}
	return r
}

func TestAMergedChunkSaysWhatItsChainSaid(t *testing.T) {
	const groups = 3
	rapid.Check(t, func(rt *rapid.T) {
		h := headerGen(groups).Draw(rt, "header")
		var chain []*Reader
		for range rapid.IntRange(0, 5).Draw(rt, "chunks") {
			chain = append(chain, chunkOf(rt, h, rapid.SliceOfN(entryGen(h, []int{1, 20}), 0, 30).Draw(rt, "entries")))
		}
		if len(chain) == 0 {
			return
		}
		want := says(rt, chain...)
		all := MergeOptions{End: groups, Base: true}
		base := merged(rt, all, chain...)
		for e := range base.Read(0, groups) {
			if e.Op != Put {
				rt.Fatalf("a base has a tombstone: %+v", e)
			}
		}
		if d := gocmp.Diff(want, says(rt, base), gocmp.AllowUnexported(fact{})); d != "" {
			rt.Fatal(d)
		}
		// Any cut: the younger part is merged with its tombstones, and then with a base of the older one.
		cut := rapid.IntRange(1, len(chain)).Draw(rt, "cut")
		old := merged(rt, all, chain[:cut]...)
		two := []*Reader{old}
		if cut < len(chain) {
			two = append(two, merged(rt, MergeOptions{End: groups}, chain[cut:]...))
		}
		if d := gocmp.Diff(want, says(rt, two...), gocmp.AllowUnexported(fact{})); d != "" {
			rt.Fatal(d)
		}
		if !equal(base, merged(rt, all, two...)) {
			rt.Fatal("merging in two steps gives another chunk")
		}
	})
}

func equal(a, b *Reader) bool {
	collect := func(r *Reader) (list []Entry) {
		for e := range r.Read(0, r.header.MaxParallelism) {
			e.Space, e.Key, e.Sub, e.Value = slices.Clone(e.Space), slices.Clone(e.Key), slices.Clone(e.Sub), slices.Clone(e.Value)
			list = append(list, e)
		}
		return list
	}
	return gocmp.Equal(collect(a), collect(b), gocmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }))
}

func TestAMergeTakesTheKeyGroupsAskedFor(t *testing.T) {
	r := chunkOf(t, header(8), []Entry{{Group: 1, Key: []byte("a"), Value: []byte("1")}, {Group: 2, Key: []byte("b"), Value: []byte("2")}})
	if f := says(t, merged(t, MergeOptions{First: 2, End: 8, Base: true}, r)); len(f) != 1 {
		t.Errorf("got %v", f)
	}
}

func TestAMergeIntoTheBaseDropsWhatHasExpired(t *testing.T) {
	h := header(1)
	h.States[0].TTL = time.Minute
	now := time.Unix(1_700_000_000, 0)
	value := func(age time.Duration) []byte { return binary.AppendVarint(nil, now.Add(-age).UnixMicro()) }
	r := chunkOf(t, h, []Entry{{Key: []byte("old"), Value: value(time.Minute)}, {Key: []byte("new"), Value: value(time.Minute - 1000)}})
	for _, c := range []struct {
		o    MergeOptions
		want int
	}{{MergeOptions{End: 1, Base: true, Now: now}, 1}, {MergeOptions{End: 1, Base: true}, 2}, {MergeOptions{End: 1, Now: now}, 2}} {
		if n := len(says(t, merged(t, c.o, r))); n != c.want {
			t.Errorf("%+v leaves %d of 2 values, want %d", c.o, n, c.want)
		}
	}
}

func TestStatesMayComeAndGoAlongAChain(t *testing.T) {
	h := header(1)
	h.States = h.States[:1]
	old := chunkOf(t, h, []Entry{{Key: []byte("a"), Value: []byte("1")}})
	h.States = []State{{Name: "new", Kind: Value, Value: "str"}}
	r := merged(t, MergeOptions{End: 1, Base: true}, old, chunkOf(t, h, []Entry{{Key: []byte("a"), Value: []byte("2")}}))
	if f := says(t, r); len(f) != 2 || len(r.header.States) != 2 {
		t.Errorf("got %v of %+v", f, r.header)
	}
}

func TestChunksThatAreNoChainAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Header){
		"groups": func(h *Header) { h.MaxParallelism++ }, "table": func(h *Header) { h.Table = "x" }, "key": func(h *Header) { h.Key = "str" },
		"scope": func(h *Header) { h.Scope = Union }, "space": func(h *Header) { h.Space = "i64" },
		"type": func(h *Header) { h.States[0].Value = "str" }, "kind": func(h *Header) { h.States[1].Kind = List },
		"ttl": func(h *Header) { h.States[0].TTL = time.Second },
	} {
		h := header(4)
		change(&h)
		var mismatch *MismatchError
		if _, err := Merge(&bytes.Buffer{}, []*Reader{chunkOf(t, header(4), nil), chunkOf(t, h, nil)}, MergeOptions{End: 4, Base: true}); !errors.As(err, &mismatch) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestSortedChunksAreSorted(t *testing.T) {
	h := spaced(1)
	rapid.Check(t, func(rt *rapid.T) {
		r := merged(rt, MergeOptions{End: 1}, chunkOf(rt, h, rapid.SliceOfN(entryGen(h, []int{1}), 0, 50).Draw(rt, "entries")))
		var list []aged
		for e := range r.Read(0, 1) {
			e.Space, e.Key, e.Sub = slices.Clone(e.Space), slices.Clone(e.Key), slices.Clone(e.Sub)
			list = append(list, aged{Entry: e})
		}
		if !slices.IsSortedFunc(list, func(a, b aged) int { return cmp.Compare(compare(&a, &b), 0) }) {
			rt.Fatal("not sorted")
		}
	})
}
