package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"

	"github.com/sluiceio/sluice/internal/vfs"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/bundle"
	"github.com/sluiceio/sluice/snapshot/fs"
)

// below is where a data directory has its objects.
const below = "snapshots"

// DirectoryError is the error of a directory that cannot be looked at.
type DirectoryError struct {
	Path  string
	Cause error
}

func (e *DirectoryError) Error() string { return e.Path + ": " + e.Cause.Error() }
func (e *DirectoryError) Unwrap() error { return e.Cause }

// ErrEmpty is the error of directories in which there is no object at all.
var ErrEmpty = errors.New("there is no snapshot")

// directory is one that is looked at.
type directory struct {
	path    string
	store   *fs.Store
	record  *bundle.Record // nil: no savepoint was exported to it
	broken  error          // why its record cannot be read
	objects []*jobpb.Object
}

// Run looks at all directories as one. The error is for what cannot be looked at: a directory that is not there is a *DirectoryError.
func Run(ctx context.Context, fsys vfs.FS, paths []string) (*Report, error) {
	a := &auditor{report: &Report{Directories: []Place{}, Checkpoints: []Checkpoint{}, Objects: []Object{}}, at: map[string]*directory{}}
	for _, p := range paths {
		if err := a.open(ctx, fsys, p); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &DirectoryError{p, err}
		}
	}
	if !slices.ContainsFunc(a.dirs, func(d *directory) bool { return len(d.objects) > 0 || d.record != nil || d.broken != nil }) {
		return nil, &DirectoryError{paths[0], ErrEmpty}
	}
	manifests, err := a.manifests(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.segments(ctx, manifests); err != nil {
		return nil, err
	}
	a.judge(manifests)
	return a.report, nil
}

type auditor struct {
	report *Report
	dirs   []*directory
	at     map[string]*directory // by path
}

func (a *auditor) open(ctx context.Context, fsys vfs.FS, p string) error {
	if a.at[p] != nil {
		return errors.New("it is named twice")
	}
	d := &directory{path: p}
	root := p
	if info, err := fsys.Stat(filepath.Join(p, below)); err == nil && info.IsDir() {
		root = filepath.Join(p, below)
	} else if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	var err error
	if d.store, err = fs.View(fsys, root); err != nil {
		return err
	}
	place := Place{Path: p, Others: []string{}}
	err = d.store.List(ctx, "", func(o *jobpb.Object) error {
		d.objects = append(d.objects, o)
		place.Objects++
		place.Bytes += o.Size
		return nil
	})
	if err != nil {
		return err
	}
	others, err := d.store.Others(ctx)
	if err != nil {
		return err
	}
	for _, o := range others {
		if o != bundle.RecordFile {
			place.Others = append(place.Others, o)
		}
	}
	if d.record, d.broken = bundle.Read(fsys, root); d.record != nil {
		place.Savepoint = fmt.Sprintf("%s:%d", d.record.Job, d.record.Checkpoint)
	}
	a.dirs, a.at[p] = append(a.dirs, d), d
	a.report.Directories = append(a.report.Directories, place)
	return nil
}

// Create implements snapshot.Stores. Nothing is written here.
func (a *auditor) Create(context.Context, snapshot.Name) (snapshot.Upload, error) {
	return nil, errors.New("the directories are only read")
}

// Open implements snapshot.Stores: the stores are the directories, under their paths.
func (a *auditor) Open(ctx context.Context, o *jobpb.StoredObject, _ []*taskpb.StoreAddress) (snapshot.Reader, error) {
	name := snapshot.Name(o.GetObject().GetName())
	for _, p := range o.GetStores() {
		if d := a.at[p]; d != nil {
			return d.store.Open(ctx, name)
		}
	}
	return nil, fmt.Errorf("%s: %w", name, snapshot.ErrNotFound)
}

// manifest is one that some directory has, or should have.
type manifest struct {
	parts  snapshot.Parts
	name   string
	m      *snapshotpb.Manifest // nil: no copy can be used
	errors []error
}

// manifests reads every copy of every manifest.
func (a *auditor) manifests(ctx context.Context) ([]*manifest, error) {
	found := map[string]*manifest{}
	var all []*manifest
	at := func(name string, p snapshot.Parts) *manifest {
		if found[name] == nil {
			found[name] = &manifest{parts: p, name: name}
			all = append(all, found[name])
		}
		return found[name]
	}
	for _, d := range a.dirs {
		for _, o := range d.objects {
			p, err := snapshot.Name(o.Name).Parse()
			if err != nil || p.Kind != snapshot.KindManifest {
				continue
			}
			x := at(o.Name, p)
			m, err := snapshot.ReadManifest(ctx, a, &jobpb.StoredObject{Object: o, Stores: []string{d.path}}, nil)
			if r := d.record; err == nil && r != nil && r.Manifest == o.Name && !bytes.Equal(r.Digest, o.Digest) {
				err = &snapshot.DamagedError{Name: snapshot.Name(o.Name), Where: d.path, Cause: errors.New("it is not the one that the directory was made for")}
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if x.add(err); err == nil {
				x.m = m
			}
			a.tell(Object{Name: o.Name, Size: o.Size, Directory: d.path, Named: true, Verdict: snapshot.VerdictOf(err)}, err)
		}
	}
	for _, d := range a.dirs {
		if d.broken != nil {
			a.tell(Object{Name: bundle.RecordFile, Directory: d.path, Named: true, Verdict: snapshot.VerdictOf(d.broken)}, d.broken)
		}
		if d.record == nil || slices.ContainsFunc(d.objects, func(o *jobpb.Object) bool { return o.Name == d.record.Manifest }) {
			continue
		}
		p, _ := snapshot.Name(d.record.Manifest).Parse() // the record was checked
		err := fmt.Errorf("%s: %w, although the directory was made for it", d.record.Manifest, snapshot.ErrNotFound)
		at(d.record.Manifest, p).add(err)
		a.tell(Object{Name: d.record.Manifest, Size: d.record.Size, Directory: d.path, Named: true, Verdict: snapshot.Missing}, err)
	}
	slices.SortFunc(all, func(x, y *manifest) int {
		return cmp.Or(cmp.Compare(x.parts.Job, y.parts.Job), cmp.Compare(x.parts.JobEpoch, y.parts.JobEpoch),
			cmp.Compare(x.parts.Checkpoint, y.parts.Checkpoint), cmp.Compare(x.parts.N, y.parts.N))
	})
	return all, nil
}

func (x *manifest) add(err error) {
	if err != nil {
		x.errors = append(x.errors, err)
	}
}

// tell adds an object to the report.
func (a *auditor) tell(o Object, err error) {
	if err != nil {
		o.Code, o.Error = codeOf(o.Verdict), err.Error()
		a.report.Damaged++
	}
	a.report.Objects = append(a.report.Objects, o)
}

// segments reads everything else that the directories have, and what manifests name.
func (a *auditor) segments(ctx context.Context, manifests []*manifest) error {
	var ms []*snapshotpb.Manifest
	named := map[string]bool{}
	for _, x := range manifests {
		if x.m == nil {
			continue
		}
		ms = append(ms, x.m)
		for _, o := range x.m.Objects {
			named[o.Name] = true
		}
	}
	var places []*jobpb.StoredObject
	for _, d := range a.dirs {
		for _, o := range d.objects {
			if p, err := snapshot.Name(o.Name).Parse(); err == nil && p.Kind == snapshot.KindSegment {
				places = append(places, &jobpb.StoredObject{Object: o, Stores: []string{d.path}})
			}
		}
	}
	findings, err := snapshot.Check(ctx, ms, a, places, nil)
	if err != nil {
		return err
	}
	for _, f := range findings {
		o := Object{Name: f.Object.Name, Size: f.Object.Size, Directory: f.Store, Verdict: f.Verdict, Parts: f.Parts, Entries: f.Entries, Named: named[f.Object.Name]}
		if f.Verdict == snapshot.Missing {
			continue // told of the checkpoints that lack it
		}
		a.tell(o, f.Cause)
	}
	return nil
}

// judge says of each checkpoint whether all of it is there.
func (a *auditor) judge(manifests []*manifest) {
	intact := map[string]bool{}
	for _, o := range a.report.Objects {
		if o.Verdict == snapshot.Intact {
			intact[o.Name] = true
		}
	}
	for i, x := range manifests {
		c := Checkpoint{Job: x.parts.Job, Epoch: x.parts.JobEpoch, ID: x.parts.Checkpoint, Manifest: x.name, Outcome: Whole, Lacks: []string{}}
		if x.m == nil {
			err := errors.Join(x.errors...)
			c.Outcome, c.Code, c.Error = Unreadable, codeOf(snapshot.VerdictOf(err)), err.Error()
			a.report.Broken++
			a.report.Checkpoints = append(a.report.Checkpoints, c)
			continue
		}
		c.Kind, c.Subtasks, c.Objects, c.Bytes = kindName(x.m.Kind), len(x.m.Subtasks), len(x.m.Objects), snapshot.StateBytes(x.m)
		for _, o := range x.m.Objects {
			if !intact[o.Name] {
				c.Lacks = append(c.Lacks, o.Name)
			}
		}
		if len(c.Lacks) > 0 {
			c.Outcome, c.Code = Incomplete, snapshot.CodeFormat
			c.Error = fmt.Sprintf("%d of %d objects have no intact copy here, for example %s", len(c.Lacks), c.Objects, c.Lacks[0])
			if newer := manifests[i+1:]; !users(x.m.Kind) && !a.exported(x.name) && slices.ContainsFunc(newer, x.before) {
				c.Outcome = Superseded
			} else {
				a.report.Broken++
			}
		}
		a.report.Checkpoints = append(a.report.Checkpoints, c)
	}
}

// before reports whether another manifest is of a newer checkpoint of the same job.
func (x *manifest) before(other *manifest) bool {
	return other.m != nil && other.parts.Job == x.parts.Job && (other.parts.JobEpoch > x.parts.JobEpoch || other.parts.Checkpoint > x.parts.Checkpoint)
}

// exported reports whether a directory was made for a manifest.
func (a *auditor) exported(name string) bool {
	return slices.ContainsFunc(a.dirs, func(d *directory) bool { return d.record != nil && d.record.Manifest == name })
}

// users: the checkpoint belongs to the user, who deletes it.
func users(k jobpb.CheckpointKind) bool {
	return k == jobpb.CheckpointKind_CHECKPOINT_SAVEPOINT || k == jobpb.CheckpointKind_CHECKPOINT_STOP || k == jobpb.CheckpointKind_CHECKPOINT_DRAIN
}
