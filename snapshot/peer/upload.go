package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/internal/invariant"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
	"github.com/sluiceio/sluice/snapshot"
	"github.com/sluiceio/sluice/snapshot/mem"
)

// Create implements snapshot.Stores.
func (s *Stores) Create(ctx context.Context, name snapshot.Name) (snapshot.Upload, error) {
	u := &upload{stores: s, name: name, store: s.cfg.Own, id: s.cfg.ID}
	var store snapshot.Store = s.cfg.Own
	if s.cfg.Own == nil {
		u.store, u.id = mem.New(), ""
		store = u.store
	}
	d, err := snapshot.NewDraft(ctx, store, name)
	if err != nil {
		return nil, err
	}
	u.Draft = d
	return u, nil
}

// upload is written into one store, the own one or one in memory, and copied from there.
type upload struct {
	snapshot.Draft
	stores *Stores
	store  snapshot.Store
	id     string // of the store; empty: it does not count
	name   snapshot.Name
}

// Commit implements snapshot.Upload.
func (u *upload) Commit(ctx context.Context, targets []*taskpb.StoreAddress, copies int) (*jobpb.StoredObject, error) {
	o, err := u.Draft.Commit(ctx)
	if err != nil {
		return nil, err
	}
	placed := &jobpb.StoredObject{Object: o}
	if u.id != "" {
		placed.Stores = append(placed.Stores, u.id)
		u.stores.believe(u.name)
	}
	var faults []error
	for _, t := range targets {
		if len(placed.Stores) >= copies || len(placed.Stores) > 0 && invariant.Without("copies") {
			break
		}
		if t.Store == u.id || t.Address == "" {
			continue
		}
		if u.stores.cfg.Shared { // it has it
			placed.Stores = append(placed.Stores, t.Store)
			continue
		}
		if err := u.stores.send(ctx, u.store, o, t); err != nil {
			faults = append(faults, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		placed.Stores = append(placed.Stores, t.Store)
	}
	switch {
	case len(placed.Stores) == 0 && len(faults) == 0:
		return nil, &snapshot.WriteError{Where: "no store", Bytes: o.Size, Cause: errors.New("there is none that could take the object")}
	case len(placed.Stores) < copies && len(faults) > 0:
		return nil, fmt.Errorf("%s has %d of %d copies: %w", u.name, len(placed.Stores), copies, errors.Join(faults...))
	}
	return placed, nil
}

// messageBytes is how much of an object one message carries.
const messageBytes = 256 << 10

// send copies an object to the store of an agent.
func (s *Stores) send(ctx context.Context, from snapshot.Store, o *jobpb.Object, to *taskpb.StoreAddress) (err error) {
	where := fmt.Sprintf("store %s at %s", to.Store, to.Address)
	failed := func(err error) error { return &snapshot.WriteError{Where: where, Bytes: o.Size, Cause: err} }
	r, err := from.Open(ctx, snapshot.Name(o.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	client, err := s.client(to.Address)
	if err != nil {
		return failed(err)
	}
	ctx, watch, cancel := s.watched(ctx)
	defer cancel()
	stream, err := client.Put(ctx)
	if err == nil {
		err = stream.Send(&controlpb.PutObject{Part: &controlpb.PutObject_Object{Object: o}})
	}
	buf := make([]byte, messageBytes)
	for at := int64(0); err == nil && at < o.Size; {
		watch.feed()
		n := int(min(messageBytes, o.Size-at))
		if _, rerr := r.ReadAt(buf[:n], at); rerr != nil && !errors.Is(rerr, io.EOF) {
			return fmt.Errorf("read %s: %w", o.Name, rerr) // the other side takes nothing that is cut short
		}
		err = stream.Send(&controlpb.PutObject{Part: &controlpb.PutObject_Data{Data: buf[:n]}})
		at += int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the answer says why
		return failed(cause(ctx, err))
	}
	watch.feed()
	got, err := stream.CloseAndRecv()
	if err != nil {
		return failed(cause(ctx, err))
	}
	if got.Size != o.Size || !bytes.Equal(got.Digest, o.Digest) {
		return failed(&snapshot.DamagedError{Name: snapshot.Name(o.Name), Where: where, Cause: fmt.Errorf("digest %x instead of %x", got.Digest, o.Digest)})
	}
	return nil
}

// cause is why a call has failed, in this house's words.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch s := status.Convert(err); s.Code() {
	case codes.NotFound:
		return fmt.Errorf("%w: %s", snapshot.ErrNotFound, s.Message())
	case codes.AlreadyExists:
		return fmt.Errorf("%w: %s", snapshot.ErrExists, s.Message())
	case codes.DataLoss:
		return fmt.Errorf("%w: %s", snapshot.ErrDamaged, s.Message())
	}
	return err
}
