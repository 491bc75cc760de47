package wire

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Policy says which connections a process may have.
type Policy struct {
	// Insecure allows plaintext beyond loopback. Whoever can reach a port can then run code on the cluster.
	Insecure bool
}

// Banner is the warning that every start of an insecure process prints; empty if there is nothing to warn of.
func (p Policy) Banner() string {
	if !p.Insecure {
		return ""
	}
	return "WARNING: --insecure: listeners beyond loopback are open, without encryption or authentication.\n" +
		"         Whoever reaches these ports can run code on this cluster. Use a private network only."
}

// Listen opens a TCP listener on addr (host:port; port 0 draws one).
func (p Policy) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := p.check(addr); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

func (p Policy) check(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if p.Insecure || IsLoopback(host) {
		return nil
	}
	return fmt.Errorf("address %q is not loopback: refused without --insecure (this release has no TLS)", addr)
}

// IsLoopback reports whether host is an address of this machine's loopback interface. A name other than localhost is
// not resolved, so it is not.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Dial connects to addr.
func (p Policy) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if err := p.check(addr); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// MaxControlMessage bounds one gRPC message of the control plane, in bytes.
const MaxControlMessage = 64 << 20

// Server makes a gRPC server for a listener of this policy.
func (p Policy) Server(opts ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxControlMessage),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}, opts...)...)
}

// Client makes a lazy gRPC connection to addr; nothing is dialled before the first call.
func (p Policy) Client(addr string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(p.Dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxControlMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}, opts...)...)
}
