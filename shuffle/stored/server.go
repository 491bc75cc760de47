package stored

import (
	"context"
	"net"

	"github.com/hashicorp/go-hclog"
)

// Server answers reads of the partitions of a store: the agent's side.
type Server struct {
	Store  *Store
	Worker string       // id of this worker: a read that is meant for another one is refused
	Log    hclog.Logger // nil: none
}

// Serve answers on the connections of l until ctx ends and waits for everything that it has started. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return errUnbuilt }
