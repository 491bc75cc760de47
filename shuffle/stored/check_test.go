package stored

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/exchangepb"
	"github.com/sluiceio/sluice/shuffle/stored/partition"
)

// damage does something to a file of a producer's partition.
func (w *world) damage(producer int, suffix string, change func([]byte) []byte) {
	w.t.Helper()
	name := w.store.path(testName(producer), suffix)
	raw, err := vfs.ReadFile(w.fs, name)
	if err == nil {
		err = w.fs.Remove(name)
	}
	if err == nil && change != nil {
		err = vfs.Publish(w.fs, name, change(raw))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func namesOf(producers ...int) (names []Name) {
	for _, p := range producers {
		names = append(names, testName(p))
	}
	return names
}

// What a reader has yet to read and cannot is found at once, however it was lost and wherever it lies, over as many requests as
// it takes.
func TestEverythingThatAReaderHasLostIsFoundAtOnce(t *testing.T) {
	const producers = exchangepb.MaxChecked + 20
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	for p := range producers {
		w.write(p, 1, 10, 10)
	}
	w.damage(5, partition.DataSuffix, nil)
	w.damage(6, partition.IndexSuffix, nil)
	w.damage(7, partition.DataSuffix, func(b []byte) []byte { return b[:len(b)-1] })
	w.damage(8, partition.IndexSuffix, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	w.damage(9, partition.DataSuffix, func(b []byte) []byte { b[0] ^= 1; return b })
	w.damage(producers-1, partition.DataSuffix, nil)
	for where, x := range map[string]*Exchange{"here": w.here, "there": w.there} {
		r := w.reader(w.readerConfig(x, 0, producers))
		_, err := r.drain()
		var first *LostError
		if !errors.As(err, &first) || first.Name.Producer < 5 || first.Name.Producer > 9 {
			t.Fatalf("%s: %v", where, err)
		}
		if lost, want := r.Unreadable(t.Context()), namesOf(5, 6, 7, 8, 9, producers-1); !slices.Equal(lost, want) {
			t.Errorf("%s: lost %v, want %v", where, lost, want)
		}
		r.Close(nil)
		if lost := r.Unreadable(t.Context()); lost != nil {
			t.Errorf("%s: a closed reader has lost %v", where, lost)
		}
	}
}

// What was read to its end, or is not finished yet, is not lost.
func TestOnlyWhatIsStillToBeReadCanBeLost(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	for p := range 3 {
		w.write(p, 1, 10, 10)
	}
	cfg := w.readerConfig(w.here, 0, 4)
	cfg.Producers[3].Stored = false // it runs still
	r := w.reader(cfg)
	for r.at.Producer == 0 {
		in, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		r.Release(in)
	}
	for p := range 3 {
		w.damage(p, partition.DataSuffix, nil)
	}
	if lost := r.Unreadable(t.Context()); !slices.Equal(lost, namesOf(1, 2)) {
		t.Errorf("lost %v", lost)
	}
}

// An audit finds what is gone of a job, once, and leaves it out of the inventory.
func TestAnAuditTakesWhatIsLostOffTheBooks(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	for p := range 4 {
		w.write(p, 1, 10, 10)
	}
	w.damage(1, partition.DataSuffix, nil)
	w.damage(3, partition.IndexSuffix, func(b []byte) []byte { return b[:len(b)-1] })
	if lost := w.store.Audit(t.Context(), "another"); lost != nil {
		t.Errorf("another job has lost %v", lost)
	}
	_, before := w.store.Usage()
	if lost := w.store.Audit(t.Context(), testName(0).Job); !slices.Equal(lost, namesOf(1, 3)) {
		t.Errorf("lost %v", lost)
	}
	if lost := w.store.Audit(t.Context(), testName(0).Job); len(lost) != 0 {
		t.Errorf("lost again: %v", lost)
	}
	var left []Name
	for _, f := range w.store.Inventory() {
		left = append(left, f.Name)
	}
	if n, bytes := w.store.Usage(); !slices.Equal(left, namesOf(0, 2)) || n != 2 || bytes != before/2 {
		t.Errorf("left are %v: %d of %d bytes", left, n, bytes)
	}
}

// An agent that does not answer says nothing, and nobody waits for it longer than was said.
func TestAnAgentThatIsSilentLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.write(0, 1, 10, 10)
		w.damage(0, partition.DataSuffix, nil)
		w.dialBy(func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r := w.reader(w.readerConfig(w.there, 0, 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if lost := r.Unreadable(ctx); lost != nil || time.Since(start) > time.Second {
			t.Errorf("lost %v after %v", lost, time.Since(start))
		}
		r.Close(nil)
	})
}

func TestAnAgentChecksOnlyWhatMakesSense(t *testing.T) {
	w := newWorld(t, vfs.NewMem(), "results", 64<<20)
	w.write(0, 1, 10, 10)
	c, err := w.there.conns.acquire(*w.peer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.there.conns.release(c); err != nil {
			t.Error(err)
		}
	}()
	for name, want := range map[string]struct {
		change func(*exchangepb.CheckRequest)
		code   codes.Code
	}{
		"sound":    {func(*exchangepb.CheckRequest) {}, codes.OK},
		"worker":   {func(r *exchangepb.CheckRequest) { r.Worker = "w-other" }, codes.FailedPrecondition},
		"protocol": {func(r *exchangepb.CheckRequest) { r.Protocol = 99 }, codes.InvalidArgument},
		"job":      {func(r *exchangepb.CheckRequest) { r.Job = "../secrets" }, codes.InvalidArgument},
		"nothing":  {func(r *exchangepb.CheckRequest) { r.Partitions = nil }, codes.InvalidArgument},
	} {
		r, answer := checkRequest(*w.peer, namesOf(0)), &exchangepb.CheckAnswer{}
		want.change(r)
		if err := c.Invoke(t.Context(), checkMethod, r, answer); status.Code(err) != want.code || len(answer.Lost) > 0 {
			t.Errorf("%s: %v, %v", name, err, answer)
		}
	}
}
