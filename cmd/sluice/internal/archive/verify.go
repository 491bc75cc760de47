package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/audit"
)

// VerifyOptions of Verify.
type VerifyOptions struct {
	Dirs []string
	// Strict: an older checkpoint that lacks objects is damage as well.
	Strict bool
}

// Verify reads all snapshots below directories and says what is wrong with them.
func Verify(ctx context.Context, s *ops.Session, o VerifyOptions) error {
	if len(o.Dirs) == 0 {
		return ops.Usagef("sluice snapshot verify DIR…", "no directory is given")
	}
	r, err := audit.Run(ctx, vfs.OS{}, o.Dirs)
	if d, ok := errors.AsType[*audit.DirectoryError](err); ok {
		return directoryFault(d)
	}
	if err != nil {
		return err
	}
	if err := s.PrintValue(r, func(w io.Writer) { show(w, r) }); err != nil {
		return err
	}
	return verdict(r, o.Strict)
}

func directoryFault(d *audit.DirectoryError) error {
	f := &ops.Fault{Exit: ops.ExitOther, Code: ops.CodeLocalFile, Err: d, Where: d.Path}
	if errors.Is(d, audit.ErrEmpty) {
		f.Exit, f.Code = ops.ExitNotFound, snapshot.CodeFormat
		f.Hints = []string{"name the data directory of a worker, a directory given to --snapshot-store file:DIR, or one that was exported"}
	}
	return f
}

func show(w io.Writer, r *audit.Report) {
	ops.Row(w, "DIRECTORY", "OBJECTS", "SIZE", "EXPORTED", "OTHER FILES")
	for _, p := range r.Directories {
		ops.Row(w, p.Path, p.Objects, ops.Size(p.Bytes), p.Savepoint, len(p.Others))
	}
	if len(r.Checkpoints) > 0 {
		ops.Row(w)
		ops.Row(w, "CHECKPOINT", "KIND", "SUBTASKS", "OBJECTS", "STATE", "OUTCOME")
	}
	for _, c := range r.Checkpoints {
		outcome := string(c.Outcome)
		if c.Error != "" {
			outcome += ": " + line(c.Error)
		}
		ops.Row(w, fmt.Sprintf("%s:%d", c.Job, c.ID), c.Kind, c.Subtasks, c.Objects, ops.Size(c.Bytes), outcome)
	}
	if len(r.Objects) > 0 {
		ops.Row(w)
		ops.Row(w, "OBJECT", "SIZE", "PARTS", "ENTRIES", "DIRECTORY", "VERDICT")
	}
	for _, o := range r.Objects {
		what := string(o.Verdict)
		switch {
		case o.Error != "":
			what += ": " + line(o.Error)
		case !o.Named:
			what += ", of no checkpoint here"
		}
		ops.Row(w, o.Name, ops.Size(o.Size), o.Parts, o.Entries, o.Directory, what)
	}
}

// line makes one line of an error that may have several.
func line(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

// verdict is the error of what is not sound; nil: everything is.
func verdict(r *audit.Report, strict bool) error {
	broken := r.Broken
	if strict {
		for _, c := range r.Checkpoints {
			if c.Outcome == audit.Superseded {
				broken++
			}
		}
	}
	if r.Damaged == 0 && broken == 0 {
		return nil
	}
	f := &ops.Fault{
		Exit: ops.ExitOther, Code: snapshot.CodeFormat,
		Err: fmt.Errorf("%d of %d objects are damaged, %d of %d checkpoints are not whole", r.Damaged, len(r.Objects), broken, len(r.Checkpoints)),
	}
	if slices.ContainsFunc(r.Objects, func(o audit.Object) bool { return o.Code == snapshot.CodeDamaged }) {
		f.Code = snapshot.CodeDamaged
	}
	if broken > 0 && r.Damaged == 0 {
		f.Hints = []string{"objects have copies on other workers: name all of their data directories"}
	}
	return f
}
