package snapshot

import (
	"context"
	"errors"
	"io"

	"github.com/sluiceio/sluice/internal/failpoint"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// errNoStores: whoever should store or read has no way to do so.
var errNoStores = errors.New("there are no stores for snapshots")

// Publish stores a manifest and reads it back: what it returns can be read by others.
func Publish(ctx context.Context, stores Stores, name Name, data []byte, targets []*taskpb.StoreAddress, copies int) (*jobpb.StoredObject, error) {
	if stores == nil {
		return nil, errNoStores
	}
	if err := failpoint.Hit(ctx, "snapshot.publish"); err != nil { // everything else of the checkpoint is durable
		return nil, err
	}
	u, err := stores.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		return nil, err
	}
	o, err := u.Commit(ctx, targets, copies)
	if err != nil {
		return nil, err
	}
	_, err = ReadManifest(ctx, stores, o, targets)
	return o, err
}

// Close ends the connections of stores that have any.
func Close(s Stores) error {
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
