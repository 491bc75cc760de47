package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"google.golang.org/grpc/codes"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/bundle"
)

// Export writes a kept checkpoint into a directory of its own.
func Export(ctx context.Context, s *ops.Session, job string, id uint64, dir string) error {
	c, err := ops.Kept(ctx, s, job, id)
	if err != nil {
		return err
	}
	d := &download{session: s, job: job, id: id}
	r, err := bundle.Write(ctx, vfs.OS{}, filepath.Clean(dir), c.Manifest, d.object)
	if err != nil {
		return exportFault(ctx, err, job, dir)
	}
	exported := struct {
		Directory string         `json:"directory"`
		Savepoint *bundle.Record `json:"savepoint"`
	}{dir, r}
	return s.PrintValue(exported, func(w io.Writer) {
		ops.Row(w, "SAVEPOINT", "OBJECTS", "SIZE", "DIRECTORY")
		ops.Row(w, fmt.Sprintf("%s:%d", job, id), r.Objects+1, ops.Size(r.Bytes), dir)
	})
}

// download reads objects through the coordinators.
type download struct {
	session *ops.Session
	job     string
	id      uint64
}

// object is a bundle.Source. A stream that breaks off goes on where it was, perhaps from another copy: the digest is compared in the end.
func (d *download) object(ctx context.Context, o *jobpb.Object, copy int, to io.Writer) error {
	var written int64
	err := d.session.Client.DoStream(ctx, func(ctx context.Context, c ops.Coordinator) error {
		stream, err := c.Jobs.ReadObject(ctx, &apipb.ReadObjectRequest{Job: d.job, Checkpoint: d.id, Name: o.Name, Copy: uint32(copy), Offset: written})
		if err != nil {
			return err
		}
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			n, err := to.Write(chunk.Data)
			written += int64(n)
			if err != nil {
				return err
			}
		}
	})
	if apipb.CodeOf(err) == codes.OutOfRange {
		return bundle.ErrNoCopy
	}
	return err
}

// exportFault gives what went wrong on this machine its code; what the cluster said has one.
func exportFault(ctx context.Context, err error, job, dir string) error {
	write, isWrite := errors.AsType[*snapshot.WriteError](err)
	format, isFormat := errors.AsType[*snapshot.FormatError](err)
	_, isPath := errors.AsType[*fs.PathError](err)
	_, said := apipb.DetailOf(err)
	f := &ops.Fault{Exit: ops.ExitOther, Err: fmt.Errorf("export: %w", err), Where: dir}
	switch {
	case ctx.Err() != nil || said:
		return err
	case errors.Is(err, bundle.ErrTaken):
		f.Exit, f.Code, f.Hints = ops.ExitPrecondition, ops.CodeLocalFile, []string{"name a directory that does not exist yet"}
	case isWrite:
		f.Code, f.Err = snapshot.CodeWrite, fmt.Errorf("export: %s: %w", write.Where, write.Cause)
		f.Hints = []string{"make room there, or name another directory; nothing was left behind"}
	case errors.Is(err, snapshot.ErrDamaged):
		f.Code, f.Hints = snapshot.CodeDamaged, []string{"every copy is damaged: look at the disks of the workers, sluice checkpoints " + job}
	case isFormat:
		f.Code, f.Err, f.Hints = snapshot.CodeFormat, fmt.Errorf("export: %w", format.Cause), []string{"sluice version shows both versions: use the command line of the cluster's release"}
	case isPath:
		f.Code = ops.CodeLocalFile
	default:
		return err
	}
	return f
}
