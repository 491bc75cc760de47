package snapshot

import (
	"context"
	"io"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// Reader is an open object. It stays readable while it is open, also if the object is deleted; in a store that cannot keep it for
// its readers, reads fail with ErrNotFound then. It never gives other bytes.
type Reader interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// A Store keeps objects under names that are written once. What is put is durable when the call returns without error;
// after an error it may be there or not. All methods may be called from several goroutines.
type Store interface {
	// Put stores size bytes. A name that exists is replaced only by the same content, which a retry may bring: other content
	// is ErrExists. From giving fewer or more bytes is an error.
	Put(ctx context.Context, name Name, size int64, from io.Reader) (*jobpb.Object, error)
	// Open opens an object; ErrNotFound if there is none. The reader does not verify: digests are of whole objects (Verify),
	// chunks have checksums of their own.
	Open(ctx context.Context, name Name) (Reader, error)
	// Delete removes objects. What is not there is deleted.
	Delete(ctx context.Context, names ...Name) error
	// List calls each for every object whose name begins with prefix, in order. Digests may be missing.
	List(ctx context.Context, prefix string, each func(*jobpb.Object) error) error
}

// Drafter is a Store that takes an object piece by piece, so that nobody holds it in memory.
type Drafter interface {
	Store
	Draft(ctx context.Context, name Name) (Draft, error)
}

// Draft is an object of one store that is being written. It belongs to one goroutine.
type Draft interface {
	io.Writer
	// Commit makes the object durable, as Put does.
	Commit(ctx context.Context) (*jobpb.Object, error)
	// Abort gives up what was not committed. It may follow Commit, and then does nothing.
	Abort()
}

// Stores is what a task process, or a leader, sees of the stores of a cluster: where its objects go, and where it finds those
// of others.
type Stores interface {
	// Create begins an object. Nothing of it is visible before Commit.
	Create(ctx context.Context, name Name) (Upload, error)
	// Open opens an object at the nearest store that has it intact enough to be opened, and tries the next one otherwise.
	// addresses tells where the stores answer that o names. ErrNotFound: all of them were asked, and none has it.
	Open(ctx context.Context, o *jobpb.StoredObject, addresses []*taskpb.StoreAddress) (Reader, error)
}

// Upload is an object that is being written. It belongs to one goroutine.
type Upload interface {
	io.Writer
	// Commit makes the object durable in copies different stores: the writer's own, then targets in their order, going on to the
	// next one if a store cannot take it. Fewer are an error only if there are targets left in vain: with fewer stores
	// than copies, all of them are enough. After an error it may be in any of them, or in none.
	Commit(ctx context.Context, targets []*taskpb.StoreAddress, copies int) (*jobpb.StoredObject, error)
	// Abort gives up what was not committed. It may follow Commit, and then does nothing.
	Abort()
}
