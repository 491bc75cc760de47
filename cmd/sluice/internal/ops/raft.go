package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/apipb"
)

// AddPeer adds a coordinator by hand. One that was started with --join asks by itself.
func AddPeer(ctx context.Context, s *Session, req *apipb.AddPeerRequest) error {
	var resp *apipb.AddPeerResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Cluster.AddPeer(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, "coordinator "+req.Id+" was added; it votes once it has caught up: sluice peers")
	})
}

// RemovePeer removes a coordinator from the cluster.
func RemovePeer(ctx context.Context, s *Session, req *apipb.RemovePeerRequest) error {
	var resp *apipb.RemovePeerResponse
	err := s.Client.Do(ctx, func(ctx context.Context, to Coordinator) (err error) {
		resp, err = to.Cluster.RemovePeer(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, "coordinator "+req.Id+" was removed; its process may be stopped now")
	})
}

// TransferLeader hands leadership over; to may be empty for the best follower.
func TransferLeader(ctx context.Context, s *Session, to string) error {
	var resp *apipb.TransferLeaderResponse
	err := s.Client.Do(ctx, func(ctx context.Context, c Coordinator) (err error) {
		resp, err = c.Cluster.TransferLeader(ctx, &apipb.TransferLeaderRequest{To: to})
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) { row(w, "the leader is "+resp.Leader) })
}

// SaveSnapshot writes all facts of the cluster to a file, which appears when it is complete.
func SaveSnapshot(ctx context.Context, s *Session, path string) error {
	if err := ownDirectory(path); err != nil {
		return err
	}
	var written int64
	err := s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) error {
		stream, err := to.Cluster.SaveSnapshot(ctx, &apipb.SaveSnapshotRequest{})
		if err != nil {
			return err
		}
		written = 0 // an earlier try may have broken off
		return vfs.PublishFunc(vfs.OS{}, path, func(w io.Writer) error {
			for {
				chunk, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				n, err := w.Write(chunk.Data)
				written += int64(n)
				if err != nil {
					return localFault(err)
				}
			}
		})
	})
	if err != nil {
		return err
	}
	saved := struct {
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{path, written}
	return s.printValue(saved, func(w *tabwriter.Writer) { row(w, fmt.Sprintf("%s: %s", path, size(written))) })
}

// ownDirectory refuses before anything is asked for that could not be written.
func ownDirectory(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return localFault(err)
	}
	if !info.IsDir() {
		return localFault(fmt.Errorf("%s is not a directory", filepath.Dir(path)))
	}
	return nil
}

// snapshotChunk is the size of one message of an uploaded snapshot, in bytes.
const snapshotChunk = 256 << 10

// RestoreSnapshot replaces all facts of the cluster by those of a file. It is not repeated when its outcome is unknown:
// that is for the operator to find out.
func RestoreSnapshot(ctx context.Context, s *Session, path string) error {
	var resp *apipb.RestoreSnapshotResponse
	var sent error
	err := s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) error {
		if sent != nil {
			return fmt.Errorf("the snapshot may have been restored, or not: sluice raft info shows what is applied: %s", apipb.MessageOf(sent))
		}
		stream, err := to.Cluster.RestoreSnapshot(ctx)
		if err != nil {
			return err
		}
		send := func(data []byte) error { return stream.Send(&apipb.RestoreSnapshotRequest{Data: data}) }
		if err := sendFile(path, snapshotChunk, send); err != nil {
			return err
		}
		resp, err = stream.CloseAndRecv()
		if detail, coded := apipb.DetailOf(err); err != nil && (!coded || detail.UnknownOutcome) {
			sent = err
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.print(resp, func(w *tabwriter.Writer) {
		row(w, fmt.Sprintf("restored; the facts are those of index %d", resp.Index))
	})
}

// sendFile streams a file. When the receiver has hung up, the reason comes with its answer, so the end of sending is no
// error here.
func sendFile(path string, chunk int, send func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return localFault(err)
	}
	defer f.Close() // only read
	for {
		buf := make([]byte, chunk) // a fresh one: gRPC may still hold the one before
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			if err := send(buf[:n]); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return localFault(err)
		}
	}
}
