package ops

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/commandpb"
)

func TestWorkersTable(t *testing.T) {
	r := newRig(t, &fake{workers: func(*apipb.WorkersRequest) (*apipb.WorkersResponse, error) {
		return &apipb.WorkersResponse{Workers: []*apipb.WorkerInfo{
			{Worker: &commandpb.Worker{Id: "w1", Host: "h", Address: "127.0.0.1:7431", Slots: 4, Memory: 8 << 30, Os: "linux", Arch: "amd64",
				Health: commandpb.WorkerHealth_WORKER_ALIVE, Draining: true, Version: "1"}, UsedSlots: 2, LastHeartbeatUs: 31_000},
			{Worker: &commandpb.Worker{Id: "w2", Health: commandpb.WorkerHealth_WORKER_LOST}, LastHeartbeatUs: -1},
		}}, nil
	}})
	if err := Workers(t.Context(), r.Session, Fresh); err != nil {
		t.Fatal(err)
	}
	want := `WORKER  HOST  ADDRESS         SLOTS  MEMORY   PLATFORM     HEALTH           HEARTBEAT  VERSION
w1      h     127.0.0.1:7431  2/4    8.0 GiB  linux/amd64  ALIVE, draining  31ms       1
w2      -     -               0/0    0 B      /            LOST             -          -
`
	if d := cmp.Diff(want, r.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestPeersOfACoordinatorWithoutACluster(t *testing.T) {
	r := newRig(t, &fake{peers: func(*apipb.PeersRequest) (*apipb.PeersResponse, error) {
		return &apipb.PeersResponse{Read: &apipb.ReadInfo{Node: "c1", Stale: true}}, nil
	}})
	if err := Peers(t.Context(), r.Session, Stale); err != nil {
		t.Fatal(err)
	}
	if want := "the coordinator that answered is in no cluster yet; its log says what it waits for\n"; r.out.String() != want {
		t.Errorf("got %s", r.out.String())
	}
}

func TestPeersTableSaysHowManyMoreMayBeLost(t *testing.T) {
	r := newRig(t, &fake{peers: func(*apipb.PeersRequest) (*apipb.PeersResponse, error) {
		return &apipb.PeersResponse{
			Peers: []*apipb.PeerInfo{
				{Id: "c1", ApiAddress: "127.0.0.1:7420", RaftAddress: "127.0.0.1:7421", Role: "leader", Voter: true, Applied: 48211, Version: "1"},
				{Id: "c3", ApiAddress: "127.0.0.1:7424", RaftAddress: "127.0.0.1:7425", Role: "unreachable", Voter: true, Applied: 48190, LastContactUs: 134_000_000, Version: "1"},
			},
			Read: &apipb.ReadInfo{Term: 7},
		}, nil
	}})
	if err := Peers(t.Context(), r.Session, Fresh); err != nil {
		t.Fatal(err)
	}
	want := `NODE  API             RAFT            ROLE         VOTER  TERM  APPLIED  LAST CONTACT  VERSION
c1    127.0.0.1:7420  127.0.0.1:7421  leader       yes    7     48211    -             1
c3    127.0.0.1:7424  127.0.0.1:7425  unreachable  yes    7     48190    2m14s         1

Failure tolerance: 0 (one more loss stops scheduling; running jobs continue)
`
	if d := cmp.Diff(want, r.out.String()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestWishesReachTheCluster(t *testing.T) {
	var got tally
	r := newRig(t, &fake{
		drain: func(req *apipb.DrainWorkerRequest) (*apipb.DrainWorkerResponse, error) {
			got.add(req.Worker)
			if req.Drain {
				got.add("drain")
			}
			return &apipb.DrainWorkerResponse{}, nil
		},
		transfer: func(req *apipb.TransferLeaderRequest) (*apipb.TransferLeaderResponse, error) {
			got.add("to " + req.To)
			return &apipb.TransferLeaderResponse{Leader: "c2"}, nil
		},
	})
	err := errors.Join(SetDrain(t.Context(), r.Session, "w1", DrainOn), SetDrain(t.Context(), r.Session, "w2", DrainOff),
		TransferLeader(t.Context(), r.Session, "c2"), ShowInfo(t.Context(), r.Session))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"w1", "drain", "w2", "to c2"}; !slices.Equal(got.all(), want) {
		t.Errorf("got %q, want %q", got.all(), want)
	}
}

func TestSnapshotAppearsWholeOrNotAtAll(t *testing.T) {
	data := bytes.Repeat([]byte("facts"), 100_000)
	send := func(end error) *fake {
		return &fake{save: func(s grpc.ServerStreamingServer[apipb.Chunk]) error {
			for part := range slices.Chunk(data, 64<<10) {
				if err := s.Send(&apipb.Chunk{Data: part}); err != nil {
					return err
				}
			}
			return end
		}}
	}
	path := filepath.Join(t.TempDir(), "snapshot")
	broken := newRig(t, send(status.Error(codes.DataLoss, "damaged")))
	if err := SaveSnapshot(t.Context(), broken.Session, path); err == nil {
		t.Error("a broken stream was saved")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a broken stream left a file")
	}
	r := newRig(t, send(status.Error(codes.Unavailable, "dies")), send(nil))
	if err := SaveSnapshot(t.Context(), r.Session, path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%v: %d bytes, want %d", err, len(got), len(data))
	}
	wantExit(t, SaveSnapshot(t.Context(), r.Session, filepath.Join(path, "below")), ExitOther, CodeLocalFile)
}

func TestRestoreIsNotRepeatedBlindly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	data := bytes.Repeat([]byte("x"), 3*snapshotChunk+1)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var calls tally
	take := func(answer error) *fake {
		return &fake{restore: func(s grpc.ClientStreamingServer[apipb.RestoreSnapshotRequest, apipb.RestoreSnapshotResponse]) error {
			var got []byte
			for {
				m, err := s.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
				got = append(got, m.Data...)
			}
			calls.add("restore")
			if !bytes.Equal(got, data) {
				return status.Error(codes.DataLoss, "differs")
			}
			if answer != nil {
				return answer
			}
			return s.SendAndClose(&apipb.RestoreSnapshotResponse{Index: 7})
		}}
	}
	r := newRig(t, take(unknownOutcome()), take(nil))
	if err := RestoreSnapshot(t.Context(), r.Session, path); err == nil || len(calls.all()) != 1 {
		t.Errorf("%v after %d calls: an unknown outcome is for the operator", err, len(calls.all()))
	}
	r = newRig(t, take(noLeader()), take(nil))
	if err := RestoreSnapshot(t.Context(), r.Session, path); err != nil {
		t.Error(err)
	}
	wantExit(t, RestoreSnapshot(t.Context(), r.Session, path+"none"), ExitOther, CodeLocalFile)
}
