package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/coordinator/api"
	"github.com/sluiceio/sluice/coordinator/artifact"
	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

// touched remembers which artifacts an upload has looked at lately: they are about to be counted as copies.
type touched struct {
	mu struct {
		sync.Mutex
		at map[artifact.Digest]time.Time
	}
}

func newTouched() *touched {
	t := &touched{}
	t.mu.at = make(map[artifact.Digest]time.Time)
	return t
}

func (t *touched) touch(d artifact.Digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for d, at := range t.mu.at {
		if time.Since(at) > uploadGrace {
			delete(t.mu.at, d)
		}
	}
	t.mu.at[d] = time.Now()
}

func (t *touched) since(d artifact.Digest) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.mu.at[d]
	if !ok {
		return uploadGrace
	}
	return time.Since(at)
}

func artifactDigest(s string) artifact.Digest { return artifact.Digest(s) }

// Inventory lists the artifacts that are here.
func (n *node) Inventory() ([]artifact.Digest, error) { return n.artifacts.List() }

// Upload is the order of commitment of an artifact: durable here → durable on a quorum of voters → committed → the
// client is told. Concurrent uploads of one digest wait for each other; the second finds everything done.
func (n *node) Upload(ctx context.Context, u api.Upload) (existed bool, err error) {
	r := n.reigning()
	if r == nil {
		return false, api.ErrNotLeader
	}
	// Whoever uploads to a leader that is none any more is told so at once.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.uploads.Context(), func() { cancel(api.ErrNotLeader) })
	defer stop()

	unlock, err := n.artifacts.Lock(ctx, u.Digest)
	if err != nil {
		return false, err
	}
	defer unlock()
	view, _ := n.fsm.view()
	if view.Artifact(string(u.Digest)) != nil {
		return true, nil
	}
	if existed, err = n.receive(ctx, u); err != nil {
		return false, err
	}
	if existed {
		// It is here without a fact: an earlier upload was not committed. Nobody vouches for those bytes.
		if err := n.artifacts.Verify(u.Digest); err != nil {
			return false, err
		}
	}
	fact, err := n.describe(u.Digest)
	if err != nil {
		return false, err
	}
	if err := failpoint.Hit(ctx, "coordinator.upload.kept"); err != nil {
		return false, err
	}
	if fact.Nodes, err = r.replicate(ctx, u.Digest, fact.Size); err != nil {
		return false, err
	}
	if err := failpoint.Hit(ctx, "coordinator.upload.copied"); err != nil {
		return false, err
	}
	result, err := n.Propose(ctx, &commandpb.Command{Command: &commandpb.Command_PutArtifact{PutArtifact: fact}})
	if err != nil {
		return false, err
	}
	if result.Status == state.Refused {
		return false, fmt.Errorf("record artifact %s: %s", u.Digest.Short(), result.Message)
	}
	if err := failpoint.Hit(ctx, "coordinator.upload.committed"); err != nil {
		return false, err
	}
	r.log.Info("artifact stored", "artifact", u.Digest.Short(), "bytes", fact.Size, "copies", len(fact.Nodes))
	return existed, nil
}

// Keep makes an artifact durable here, for another coordinator that counts the copies.
func (n *node) Keep(ctx context.Context, u api.Upload) (existed bool, err error) {
	unlock, err := n.artifacts.Lock(ctx, u.Digest)
	if err != nil {
		return false, err
	}
	defer unlock()
	return n.receive(ctx, u)
}

// receive stores what arrives unless it is here; the caller holds the lock of the digest.
func (n *node) receive(ctx context.Context, u api.Upload) (existed bool, err error) {
	n.touched.touch(u.Digest)
	if _, err := n.artifacts.Stat(u.Digest); err == nil {
		return true, nil
	} else if !errors.Is(err, artifact.ErrMissing) {
		return false, err
	}
	w, err := n.artifacts.Create(u.Digest, u.Size)
	if err != nil {
		return false, err
	}
	for {
		chunk, err := u.Next(ctx)
		if errors.Is(err, io.EOF) {
			return false, w.Commit()
		}
		if err == nil {
			_, err = w.Write(chunk)
		}
		if err != nil {
			return false, errors.Join(err, w.Abort())
		}
	}
}

// describe makes the fact about an artifact that is here.
func (n *node) describe(d artifact.Digest) (_ *commandpb.PutArtifact, err error) {
	size, err := n.artifacts.Stat(d)
	if err != nil {
		return nil, err
	}
	f, err := n.artifacts.Open(d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fact := &commandpb.PutArtifact{Digest: string(d), Size: size}
	platform, err := artifact.Inspect(f)
	switch {
	case err == nil:
		fact.Os, fact.Arch = platform.OS, platform.Arch
	case !errors.Is(err, artifact.ErrNotELF):
		return nil, err
	}
	// What is no executable may be stored; it is refused when someone wants to run it.
	return fact, nil
}

// copyTimeout bounds one copy of an artifact to another coordinator.
const copyTimeout = 2 * time.Minute

// replicate copies an artifact to the other voters and returns when a quorum, this node included, holds it durably. The
// copies to the rest go on, and what fails is repaired later by the nodes themselves.
func (r *reign) replicate(ctx context.Context, d artifact.Digest, size int64) (nodes []string, err error) {
	servers := r.n.servers()
	nodes = []string{r.n.id.ID}
	needed := r.quorumOf(servers).needed
	type outcome struct {
		id  string
		err error
	}
	outcomes := make(chan outcome, len(servers))
	started := 0
	view, _ := r.n.fsm.view()
	for _, s := range servers {
		if s.Suffrage != raft.Voter || string(s.ID) == r.n.id.ID {
			continue
		}
		started++
		address := view.Node(string(s.ID)).GetApiAddress()
		r.uploads.Go("copy artifact", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, copyTimeout)
			defer cancel()
			outcomes <- outcome{string(s.ID), r.copyTo(ctx, address, d, size)}
			return nil
		})
	}
	var failed []error
	for len(nodes) < needed {
		if started == 0 {
			return nil, &api.Refusal{Status: codes.Unavailable, Code: api.CodeUpload, Retryable: true,
				Cause: fmt.Errorf("artifact %s is on %d coordinators, %d are needed: %w", d.Short(), len(nodes), needed, errors.Join(failed...)),
				Hints: []string{"sluice peers shows which coordinators can be reached"}}
		}
		select {
		case o := <-outcomes:
			started--
			if o.err != nil {
				r.log.Warn("artifact not copied", "artifact", d.Short(), "coordinator", o.id, "error", o.err)
				failed = append(failed, fmt.Errorf("%s: %w", o.id, o.err))
				continue
			}
			nodes = append(nodes, o.id)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}

func (r *reign) copyTo(ctx context.Context, address string, d artifact.Digest, size int64) (err error) {
	if address == "" {
		return errors.New("its API address is not known yet")
	}
	conn, err := r.n.Conn(address)
	if err != nil {
		return err
	}
	f, err := r.n.artifacts.Open(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stream, err := apipb.NewNodeClient(conn).StoreArtifact(ctx)
	if err != nil {
		return err
	}
	send := func(m *apipb.UploadRequest) error {
		err := stream.Send(m)
		if errors.Is(err, io.EOF) {
			return errAnswered
		}
		return err
	}
	err = send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Header{Header: &apipb.UploadHeader{Digest: string(d), Size: size}}})
	for err == nil {
		buf := make([]byte, copyBytes)
		n, readErr := f.Read(buf)
		if n > 0 {
			err = send(&apipb.UploadRequest{Part: &apipb.UploadRequest_Data{Data: buf[:n]}})
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return readErr
		}
	}
	if err != nil && !errors.Is(err, errAnswered) {
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

const copyBytes = 256 << 10

// errAnswered: the receiver has answered before everything was sent.
var errAnswered = errors.New("answered early")

// Open opens an artifact. If it may look elsewhere, it is first got from a coordinator that holds it.
func (n *node) Open(ctx context.Context, d artifact.Digest, where api.Where) (io.ReadCloser, error) {
	f, err := n.artifacts.Open(d)
	if err == nil || where == api.Here || !errors.Is(err, artifact.ErrMissing) {
		return f, err
	}
	if err := n.get(ctx, d); err != nil {
		return nil, err
	}
	return n.artifacts.Open(d)
}

// get copies an artifact that the facts know from another coordinator to here.
func (n *node) get(ctx context.Context, d artifact.Digest) error {
	view, _ := n.fsm.view()
	fact := view.Artifact(string(d))
	if fact == nil {
		// Whoever was told that it is stored may ask a follower that has not heard of it yet.
		var err error
		if fact, err = n.statAtLeader(ctx, d); err != nil {
			return err
		}
	}
	unlock, err := n.artifacts.Lock(ctx, d)
	if err != nil {
		return err
	}
	defer unlock()
	// Those that are said to hold it first; then everybody, because the fact may be older than a repair.
	var failed []error
	for _, id := range candidates(view, fact, n.id.ID) {
		err := n.getFrom(ctx, view.Node(id).GetApiAddress(), d, fact.Size)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed = append(failed, fmt.Errorf("%s: %w", id, err))
	}
	return fmt.Errorf("no coordinator gives artifact %s: %w", d.Short(), errors.Join(failed...))
}

func (n *node) statAtLeader(ctx context.Context, d artifact.Digest) (*commandpb.Artifact, error) {
	leader, _ := n.Leader()
	if leader.Here || leader.Address == "" {
		return nil, fmt.Errorf("%s: %w", d.Short(), artifact.ErrMissing)
	}
	conn, err := n.Conn(leader.Address)
	if err != nil {
		return nil, err
	}
	stat, err := apipb.NewArtifactsClient(conn).Stat(api.Forwarded(ctx, n.id.ID), &apipb.StatRequest{Digest: string(d)})
	if err != nil {
		return nil, err
	}
	if !stat.Exists {
		return nil, fmt.Errorf("%s: %w", d.Short(), artifact.ErrMissing)
	}
	return &commandpb.Artifact{Digest: string(d), Size: stat.Size, Nodes: []string{leader.ID}}, nil
}

func candidates(view *state.View, fact *commandpb.Artifact, self string) []string {
	ids := slices.Clone(fact.Nodes)
	for node := range view.Nodes() {
		if !slices.Contains(ids, node.Id) {
			ids = append(ids, node.Id)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool { return id == self || view.Node(id) == nil })
}

func (n *node) getFrom(ctx context.Context, address string, d artifact.Digest, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	conn, err := n.Conn(address)
	if err != nil {
		return err
	}
	stream, err := apipb.NewArtifactsClient(conn).Fetch(api.Forwarded(ctx, n.id.ID), &apipb.FetchRequest{Digest: string(d)})
	if err != nil {
		return err
	}
	_, err = n.receive(ctx, api.Upload{Digest: d, Size: size, Next: func(context.Context) ([]byte, error) {
		chunk, err := stream.Recv()
		return chunk.GetData(), err
	}})
	return err
}
