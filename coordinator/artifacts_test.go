package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/internal/run"
	"github.com/sluiceio/sluice/proto/apipb"
)

func fetch(ctx context.Context, n *clustertest.Node, digest string) ([]byte, error) {
	stream, err := n.Artifacts().Fetch(ctx, &apipb.FetchRequest{Digest: digest})
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, chunk.Data...)
	}
}

func TestArtifactReachesEveryNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		data := clustertest.Binary(strings.Repeat("payload ", 100_000))
		digest, resp, err := clustertest.Upload(call(t), c.Followers(leader)[0].Artifacts(), data)
		if err != nil || resp.Existed {
			t.Fatalf("upload: %v, %v", resp, err)
		}
		stat, err := leader.Artifacts().Stat(call(t), &apipb.StatRequest{Digest: digest})
		if err != nil || !stat.Exists || stat.Size != int64(len(data)) {
			t.Fatalf("stat: %v, %v", stat, err)
		}
		for _, n := range c.Nodes() {
			got, err := fetch(call(t), n, digest)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s serves %d bytes, %v", n.Name, len(got), err)
			}
		}
		if _, err := fetch(call(t), leader, clustertest.Digest([]byte("unknown"))); err == nil {
			t.Error("an unknown artifact was served")
		} else {
			mustFail(t, err, codes.NotFound, "E103")
		}
		_, again, err := clustertest.Upload(call(t), leader.Artifacts(), data)
		if err != nil || !again.Existed {
			t.Errorf("uploaded again: %v, %v", again, err)
		}
	})
}

func TestBadUploadLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		data := clustertest.Binary("some payload")
		good := &apipb.UploadHeader{Digest: clustertest.Digest(data), Size: int64(len(data))}
		upload := func(h *apipb.UploadHeader, data []byte) error {
			_, err := clustertest.UploadAs(call(t), c.Followers(leader)[0].Artifacts(), h, data)
			return err
		}
		mustFail(t, upload(good, data[:len(data)/2]), codes.InvalidArgument, "E074")
		mustFail(t, upload(good, append(bytes.Clone(data), 'x')), codes.InvalidArgument, "E074")
		wrong := bytes.Clone(data)
		wrong[len(wrong)-1]++
		mustFail(t, upload(good, wrong), codes.InvalidArgument, "E074")
		mustFail(t, upload(&apipb.UploadHeader{Digest: good.Digest, Size: 1 << 40}, data), codes.InvalidArgument, "E074")
		mustFail(t, upload(&apipb.UploadHeader{Digest: "../x", Size: 1}, data), codes.InvalidArgument, "E075")
		mustFail(t, upload(&apipb.UploadHeader{Digest: good.Digest}, data), codes.InvalidArgument, "E075")

		// A client that disappears in the middle.
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := leader.Artifacts().Upload(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Header{Header: good}}); err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Data{Data: data[:8]}}); err != nil {
			t.Fatal(err)
		}
		cancel()
		after(t, time.Second)
		// And ones that fall silent, but stay: at the leader, and at a follower that relays.
		for _, n := range []*clustertest.Node{leader, c.Followers(leader)[0]} {
			stream, err = n.Artifacts().Upload(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Header{Header: good}}); err != nil {
				t.Fatal(err)
			}
			after(t, time.Minute)
			_, err = stream.CloseAndRecv()
			mustFail(t, err, codes.DeadlineExceeded, "E074")
		}

		for _, n := range c.Nodes() {
			for _, dir := range []string{"/artifacts", "/artifacts/incoming"} {
				entries, err := n.Files().ReadDir("/" + n.Name + dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if !e.IsDir() {
						t.Errorf("%s%s has %s", n.Name, dir, e.Name())
					}
				}
			}
		}
		stat, err := leader.Artifacts().Stat(call(t), &apipb.StatRequest{Digest: good.Digest})
		if err != nil || stat.Exists {
			t.Errorf("stat %v, %v", stat, err)
		}
		if err := upload(good, data); err != nil {
			t.Errorf("the right upload after all of that: %v", err)
		}
	})
}

func TestConcurrentUploadsOfOneBinaryAreOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		data := clustertest.Binary(strings.Repeat("x", 500_000))
		group := run.NewGroup(t.Context(), "uploads")
		fresh := make(chan struct{}, 8)
		for i := range 8 {
			group.Go(fmt.Sprint(i), func(ctx context.Context) error {
				_, resp, err := clustertest.Upload(ctx, c.Node(i%3).Artifacts(), data)
				if err == nil && !resp.Existed {
					fresh <- struct{}{}
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := len(fresh); n != 1 {
			t.Errorf("%d uploads say that they stored it, want 1", n)
		}
		if got, err := fetch(call(t), leader, clustertest.Digest(data)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("fetched %d bytes, %v", len(got), err)
		}
	})
}

func TestUploadNeedsAQuorumAndTheRestCatchesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		away := c.Followers(leader)[0]
		if err := away.Kill(); err != nil {
			t.Fatal(err)
		}
		digest := mustUpload(t, leader, "stored on two of three")
		away.Start()
		c.Eventually(time.Minute, "the node that was away has got the artifact", func(ctx context.Context) error {
			return holds(ctx, away, digest)
		})
		// The place is committed, too.
		c.Eventually(time.Minute, "three places are known", func(ctx context.Context) error {
			if err := leader.Kill(); err != nil {
				return err
			}
			next := c.AwaitLeader()
			defer leader.Start()
			got, err := fetch(ctx, next, digest)
			if err == nil && len(got) == 0 {
				err = errors.New("empty")
			}
			return err
		})
		for _, n := range c.Followers(c.AwaitLeader()) {
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, n := range c.Nodes() {
			if !n.Running() {
				continue
			}
			_, _, err := clustertest.Upload(ctx, n.Artifacts(), clustertest.Binary("no quorum"))
			if code := apipb.CodeOf(err); code != codes.Unavailable {
				t.Errorf("an upload without a quorum ended with %v", err)
			}
		}
	})
}

func TestDamagedArtifactIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{})
		leader := c.AwaitLeader()
		digest := mustUpload(t, leader, "to be damaged")
		victim := c.Followers(leader)[0]
		c.Eventually(time.Minute, "everybody holds it", func(ctx context.Context) error { return holds(ctx, victim, digest) })
		name := "/" + victim.Name + "/artifacts/" + digest
		f, err := victim.Files().OpenFile(name, 2 /* read and write */, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("rot"), 70); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		c.Eventually(time.Hour, "the copy is good again", func(ctx context.Context) error {
			got, err := fetch(ctx, victim, digest)
			if err == nil && clustertest.Digest(got) != digest {
				err = errors.New("still damaged")
			}
			if err != nil {
				after(t, 30*time.Second)
			}
			return err
		})
	})
}

func TestUnusedArtifactsGoByCommittedDecision(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := clustertest.New(t, clustertest.Options{Configure: func(_ string, cfg *coordinator.Config) {
			cfg.KeepArtifacts = 2 * time.Minute
		}})
		leader := c.AwaitLeader()
		used, unused := mustUpload(t, leader, "used"), mustUpload(t, leader, "unused")
		mustSubmit(t, leader, used, "r")
		after(t, 6*time.Minute)
		leader = c.AwaitLeader()
		// Committed time moves with commands.
		mustSubmit(t, leader, used, "r2")
		c.Eventually(time.Minute, "nobody holds the unused one", func(ctx context.Context) error {
			stat, err := leader.Artifacts().Stat(ctx, &apipb.StatRequest{Digest: unused})
			if err != nil {
				return err
			}
			if stat.Exists {
				return errors.New("the fact is still there")
			}
			for _, n := range c.Nodes() {
				if err := holds(ctx, n, unused); err == nil {
					return fmt.Errorf("%s still holds it", n.Name)
				}
			}
			return nil
		})
		for _, n := range c.Nodes() {
			if err := holds(call(t), n, used); err != nil {
				t.Errorf("the used one: %v", err)
			}
		}
		if _, _, err := clustertest.Upload(call(t), leader.Artifacts(), clustertest.Binary("unused")); err != nil {
			t.Errorf("uploaded again: %v", err)
		}
		after(t, time.Minute)
		for _, n := range c.Nodes() {
			if err := holds(call(t), n, unused); err != nil {
				t.Errorf("the copy that was stored again: %v", err)
			}
		}
	})
}

// TestUploadBrokenBetweenItsStepsIsSafe breaks the order of commitment at each of its steps: the client is told of a
// failure, and asking again brings the artifact to a quorum and into the facts.
func TestUploadBrokenBetweenItsStepsIsSafe(t *testing.T) {
	for _, step := range []string{"kept", "copied", "committed"} {
		inBubble(t, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Options{})
			leader := c.AwaitLeader()
			failpoint.Arm(t, "coordinator.upload."+step+"=1:error")
			data := clustertest.Binary(step)
			digest, _, err := clustertest.Upload(call(t), leader.Artifacts(), data)
			if err == nil {
				t.Fatalf("%s: acknowledged", step)
			}
			stat, err := leader.Artifacts().Stat(call(t), &apipb.StatRequest{Digest: digest})
			if err != nil || stat.Exists != (step == "committed") {
				t.Errorf("%s: stat %v, %v", step, stat, err)
			}
			if err := leader.Kill(); err != nil { // whatever the old leader has is out of reach
				t.Fatal(err)
			}
			next := c.AwaitLeader()
			if _, _, err := clustertest.Upload(call(t), next.Artifacts(), data); err != nil {
				t.Fatalf("%s: again: %v", step, err)
			}
			holders := 0
			for _, n := range c.Followers(leader) {
				if holds(call(t), n, digest) == nil {
					holders++
				}
			}
			if holders != 2 {
				t.Errorf("%s: %d live nodes hold it, want a quorum of 2", step, holders)
			}
			mustSubmit(t, next, digest, "r")
		})
	}
}

// TestReignBrokenInItsBeginningStartsAgain breaks the establishment of a leader after its barrier and after its
// announcement.
func TestReignBrokenInItsBeginningStartsAgain(t *testing.T) {
	for _, step := range []string{"barrier", "announced"} {
		inBubble(t, func(t *testing.T) {
			c := clustertest.New(t, clustertest.Options{})
			c.AwaitLeader()
			failpoint.Arm(t, "coordinator.reign."+step+"=1:error")
			if err := c.AwaitLeader().Kill(); err != nil {
				t.Fatal(err)
			}
			leader := c.AwaitLeader()
			mustSubmit(t, leader, mustUpload(t, leader, "a"), "r")
		})
	}
}

// patient is a context for calls that take long on purpose, and yet end.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
