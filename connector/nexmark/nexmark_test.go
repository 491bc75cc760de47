package nexmark

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/connector/suite"
	"github.com/sluiceio/sluice/flow/element"
)

type digest struct {
	Count    int64
	Sum, Xor string
}

type vectors struct {
	Mix  map[string]string
	Runs []struct {
		Seed       uint64
		UsPerEvent int64
		Rows       []struct {
			I               int64
			Kind, Row, Hash string
		}
		Digest struct {
			From, To int64
			Kinds    map[string]digest
		}
	}
}

func load(t *testing.T) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Runs) == 0 || len(v.Mix) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

func event(g Generator, i int64) (kind string, row fmt.Stringer) {
	switch KindOf(i) {
	case KindPerson:
		return "person", g.Person(i)
	case KindAuction:
		return "auction", g.Auction(i)
	}
	return "bid", g.Bid(i)
}

func TestMixIsTheOneOfTheVectors(t *testing.T) {
	for in, want := range load(t).Mix {
		z, err := strconv.ParseUint(in, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%016x", mix(z)); got != want {
			t.Errorf("mix(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestEveryEventIsTheOneOfTheVectors(t *testing.T) {
	for _, run := range load(t).Runs {
		g := New(run.Seed, run.UsPerEvent)
		for _, r := range run.Rows {
			kind, row := event(g, r.I)
			if kind != r.Kind || row.String() != r.Row {
				t.Errorf("seed %d, event %d: %s %s, want %s %s", run.Seed, r.I, kind, row, r.Kind, r.Row)
			}
			if got := fmt.Sprintf("%016x", hash(r.Row)); got != r.Hash {
				t.Errorf("hash of %s: %s, want %s", r.Row, got, r.Hash)
			}
		}
		sums := map[string][3]uint64{}
		for i := run.Digest.From; i < run.Digest.To; i++ {
			kind, row := event(g, i)
			h, s := hash(row.String()), sums[kind]
			sums[kind] = [3]uint64{s[0] + 1, s[1] + h, s[2] ^ h}
		}
		for kind, want := range run.Digest.Kinds {
			s := sums[kind]
			if got := (digest{int64(s[0]), fmt.Sprintf("%016x", s[1]), fmt.Sprintf("%016x", s[2])}); got != want {
				t.Errorf("seed %d, %s: %v, want %v", run.Seed, kind, got, want)
			}
		}
	}
}

func TestLeanEventsDifferOnlyInWhatTheyLack(t *testing.T) {
	g := New(7, 100)
	for i := range int64(2000) {
		switch KindOf(i) {
		case KindPerson:
			full := g.Person(i)
			full.Email, full.CreditCard = "", ""
			if lean := g.LeanPerson(i); lean != full {
				t.Fatalf("event %d: %v, want %v", i, lean, full)
			}
		case KindAuction:
			full := g.Auction(i)
			full.Item = ""
			if lean := g.LeanAuction(i); lean != full {
				t.Fatalf("event %d: %v, want %v", i, lean, full)
			}
		case KindBid:
			full := g.Bid(i)
			full.Channel, full.URL = "", ""
			if lean := g.LeanBid(i); lean != full {
				t.Fatalf("event %d: %v, want %v", i, lean, full)
			}
		}
	}
}

func TestLeanBidsAreMadeWithoutAllocation(t *testing.T) {
	g, i := New(42, 100), int64(4)
	if n := testing.AllocsPerRun(100, func() { g.LeanBid(i); i++ }); n != 0 {
		t.Errorf("%v allocations per bid", n)
	}
}

func conformance[T fmt.Stringer](t *testing.T, kind Kind, of func(Config) connector.Source[T], make func(Generator, int64) T) {
	const events = 1234
	cfg := Config{Seed: 3, Events: events}
	var want []T
	for i := range int64(events) {
		if KindOf(i) == kind {
			want = append(want, make(cfg.Generator(), i))
		}
	}
	suite.TestSource(t, suite.Source[T]{
		Open: func(testing.TB) connector.Source[T] { return of(cfg) },
		Slow: func(testing.TB) connector.Source[T] {
			slow := cfg
			slow.Rate = 1
			return of(slow)
		},
		Want: want,
		Name: func(v T) string { return v.String() },
	})
}

func TestConformance(t *testing.T) {
	t.Run("persons", func(t *testing.T) { conformance(t, KindPerson, Config.Persons, Generator.Person) })
	t.Run("auctions", func(t *testing.T) { conformance(t, KindAuction, Config.Auctions, Generator.Auction) })
	t.Run("bids", func(t *testing.T) { conformance(t, KindBid, Config.Bids, Generator.Bid) })
}

func TestTimesNeverFallWithinASplitAndStayCloseBetweenSplits(t *testing.T) {
	src := Config{Seed: 1, Events: 20_000}.Bids()
	e, err := src.OpenEnumerator(t.Context(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	splits, _ := e.Next(t.Context())
	r, err := src.OpenReader(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Assign(splits); err != nil {
		t.Fatal(err)
	}
	last := make([]element.Time, len(splits))
	newest, n := element.MinTime, 0
	out := &connector.Records[Bid]{Max: 512}
	for {
		out.Reset()
		err := r.Poll(t.Context(), out)
		for i, at := range out.Times {
			if s := out.Splits[i]; at <= last[s] {
				t.Fatalf("split %d falls from %v to %v", s, last[s], at)
			} else {
				last[s] = at
			}
			newest = max(newest, at)
			if behind := int64(newest - at); behind > 3*block*100 {
				t.Fatalf("an event is %d µs behind the newest", behind)
			}
			n++
		}
		if err != nil {
			break
		}
	}
	if n != 20_000/round*(round-auctionsPerRound-1) {
		t.Fatalf("%d bids", n)
	}
}

func TestAForeignLaneIsRefused(t *testing.T) {
	r, err := Config{}.Bids().OpenReader(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []lane{{}, {index: 2, of: 2}, {of: 2, next: block}, {of: 1, next: -1}} {
		if err := r.Assign([]connector.Split{l.split()}); err == nil {
			t.Errorf("lane %+v is taken", l)
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	g := New(42, 100)
	b.Run("lean bid", func(b *testing.B) {
		for i := range int64(b.N) {
			g.LeanBid(i)
		}
	})
	b.Run("bid", func(b *testing.B) {
		b.ReportAllocs()
		for i := range int64(b.N) {
			g.Bid(i)
		}
	})
}

// TestMixedKindsAreThoseOfEachEvent: a source of two kinds has their events in order, whatever the room of a poll and the number of
// splits.
func TestMixedKindsAreThoseOfEachEvent(t *testing.T) {
	const n = 2345
	for _, c := range []struct{ first, last Kind }{{KindPerson, KindAuction}, {KindAuction, KindBid}, {KindPerson, KindBid}, {KindBid, KindBid}} {
		for _, splits := range []int{1, 3} {
			src := Mixed(Config{Seed: 1, Events: n}, c.first, c.last, func(_ Generator, i int64) int64 { return i })
			en, err := src.OpenEnumerator(t.Context(), splits, nil)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := en.Next(t.Context())
			rd, err := src.OpenReader(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := rd.Assign(all); err != nil {
				t.Fatal(err)
			}
			got := map[int64]bool{}
			for ended := false; !ended; {
				out := connector.Records[int64]{Max: 7}
				ended = rd.Poll(t.Context(), &out) == io.EOF
				if out.Len() > out.Max {
					t.Fatalf("%d records, %d were asked for", out.Len(), out.Max)
				}
				for k, i := range out.Vals {
					if got[i] || out.Pos[k] != i || out.Times[k] != Epoch+element.Time(100*i) {
						t.Fatalf("event %d: twice, or at %d, %d", i, out.Pos[k], out.Times[k])
					}
					got[i] = true
				}
			}
			for i := range int64(n) {
				if k := KindOf(i); got[i] != (c.first <= k && k <= c.last) {
					t.Fatalf("kinds %d to %d in %d splits: event %d", c.first, c.last, splits, i)
				}
			}
		}
	}
}

// TestFieldsDependOnPlaceAndText: what is exchanged or cut differently is another row.
func TestFieldsDependOnPlaceAndText(t *testing.T) {
	seen := map[uint64]int{}
	for i, f := range []Fields{
		Row(), Row().Num(1), Row().Num(1).Num(2), Row().Num(2).Num(1), Row().Text("a").Text("b"), Row().Text("b").Text("a"), Row().Text("ab").Text(""),
		Row().Text("").Text("ab"), Row().Text("a long text of words"), Row().Text("a long text of word"), Row().Time(1).Num(0).Num(0),
	} {
		if k, ok := seen[f.Hash()]; ok {
			t.Errorf("rows %d and %d have the same hash", k, i)
		}
		seen[f.Hash()] = i
	}
	if Row().Text("words").Hash() != Row().Bytes([]byte("words")).Hash() || Row().Text("").Hash() != Row().Bytes(nil).Hash() {
		t.Error("a text and its bytes differ")
	}
}
