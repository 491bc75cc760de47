package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/proto/apipb"
)

// Coordinator is the API of one coordinator.
type Coordinator struct {
	Jobs      apipb.JobsClient
	Cluster   apipb.ClusterClient
	Artifacts apipb.ArtifactsClient
}

// Client finds a coordinator that answers. Any of them answers any call, so it does not look for the leader: it asks one
// after the other, begins with the one that answered last, and goes on until one does or time is up.
type Client struct {
	nodes []peer
	// Waiting is told, once per call, that nobody has answered for a while, and what each coordinator said; nil: no one
	// cares. Not to be changed after the first call.
	Waiting func(said string)

	mu struct {
		sync.Mutex
		preferred int // index of the coordinator that answered last
	}
}

type peer struct {
	addr string
	conn *grpc.ClientConn
	api  Coordinator
}

const (
	// tryTime is how long one coordinator may take for an answer. A coordinator without a leader refuses after 5 s.
	tryTime = 7 * time.Second
	// patience is how long nobody may answer when the call itself has no deadline.
	patience = 30 * time.Second
	// connectTime is how long a coordinator may take to be connected while others may be faster.
	connectTime = 500 * time.Millisecond
	// waitingAfter is how long nobody may answer before Waiting is told: an election is over by then.
	waitingAfter = 3 * time.Second
	// restMin and restMax bound the pause after every coordinator has been asked in vain.
	restMin = 50 * time.Millisecond
	restMax = time.Second
)

// Dial makes a connection to a coordinator; nothing is sent before the first call.
func Dial(policy wire.Policy) func(addr string) (*grpc.ClientConn, error) {
	return func(addr string) (*grpc.ClientConn, error) {
		return policy.Client(addr, grpc.WithConnectParams(grpc.ConnectParams{
			// The client does its own waiting: a coordinator that is back must be found at once.
			Backoff:           backoff.Config{BaseDelay: restMin, Multiplier: 1.5, Jitter: 0.2, MaxDelay: restMax},
			MinConnectTimeout: 3 * time.Second, // a paused process accepts and stays silent
		}))
	}
}

// NewClient makes a client of the coordinators at addrs.
func NewClient(addrs []string, dial func(addr string) (*grpc.ClientConn, error)) (*Client, error) {
	if len(addrs) == 0 {
		return nil, Usagef("--addr HOST:PORT,… or SLUICE_ADDR", "no coordinator address")
	}
	c := &Client{}
	for _, addr := range addrs {
		conn, err := dial(addr)
		if err != nil {
			return nil, errors.Join(Usagef("--addr HOST:PORT,…", "coordinator address %q: %w", addr, err), c.Close())
		}
		c.nodes = append(c.nodes, peer{addr: addr, conn: conn, api: Coordinator{
			Jobs: apipb.NewJobsClient(conn), Cluster: apipb.NewClusterClient(conn), Artifacts: apipb.NewArtifactsClient(conn),
		}})
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.conn.Close())
	}
	return errors.Join(errs...)
}

// Do calls f with one coordinator after another until f succeeds, is refused, or ctx ends. f may run several times, so
// it must be a read, or carry a request id, or say what shall be true.
func (c *Client) Do(ctx context.Context, f func(ctx context.Context, to Coordinator) error) error {
	return c.do(ctx, tryTime, f)
}

// DoStream is Do for calls that may take long because they move data: no single try is cut off.
func (c *Client) DoStream(ctx context.Context, f func(ctx context.Context, to Coordinator) error) error {
	return c.do(ctx, 0, f)
}

func (c *Client) do(ctx context.Context, each time.Duration, f func(ctx context.Context, to Coordinator) error) error {
	_, limited := ctx.Deadline()
	first, rest, giveUp := c.first(ctx), restMin, time.Now().Add(patience)
	tell := time.Now().Add(waitingAfter)
	last := make([]error, len(c.nodes)) // what each coordinator said last
	for i := 0; ; i++ {
		at := (first + i) % len(c.nodes)
		begun := time.Now()
		err := c.try(ctx, each, at, f)
		if err == nil {
			c.prefer(at)
			return nil
		}
		if !elsewhere(err) {
			return err
		}
		if ctx.Err() == nil || last[at] == nil { // the end of ctx must not hide an earlier answer
			last[at] = err
		}
		if time.Since(begun) > tryTime { // it was there for a while: patience begins anew
			giveUp = time.Now().Add(patience)
		}
		everyone := (i+1)%len(c.nodes) == 0
		if ctx.Err() != nil || everyone && !sleep(ctx, rest) || everyone && !limited && time.Now().After(giveUp) {
			return c.gaveUp(ctx, last)
		}
		if everyone {
			rest = min(2*rest, restMax)
		}
		if everyone && c.Waiting != nil && !tell.IsZero() && time.Now().After(tell) {
			tell = time.Time{}
			c.Waiting(strings.Join(c.said(last), "; "))
		}
	}
}

func (c *Client) try(ctx context.Context, each time.Duration, at int, f func(context.Context, Coordinator) error) error {
	ctx, cancel := context.WithCancel(ctx) // a stream that f leaves behind ends here
	defer cancel()
	if each > 0 {
		ctx, cancel = context.WithTimeout(ctx, each)
		defer cancel()
	}
	return f(ctx, c.nodes[at].api)
}

// first is the coordinator to begin with: the one that answered last, unless it cannot be connected in a
// moment and another one can. A paused process accepts connections and says nothing.
func (c *Client) first(ctx context.Context) int {
	c.mu.Lock()
	preferred := c.mu.preferred
	c.mu.Unlock()
	if connected(ctx, c.nodes[preferred].conn) {
		return preferred
	}
	for _, n := range c.nodes {
		n.conn.Connect()
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime) // for all of them
	defer cancel()
	for i, n := range c.nodes {
		if i != preferred && connected(ctx, n.conn) {
			return i
		}
	}
	return preferred
}

// connected reports whether a connection is there, after it had a moment to come about.
func connected(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn.Connect()
	for {
		switch state := conn.GetState(); {
		case state == connectivity.Ready:
			return true
		case state == connectivity.TransientFailure, !conn.WaitForStateChange(ctx, state):
			return false
		}
	}
}

func (c *Client) prefer(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.preferred = i
}

// elsewhere: the coordinator or the cluster was at fault, not the request, so it is worth asking again or another one.
func elsewhere(err error) bool {
	if detail, ok := apipb.DetailOf(err); ok && detail.UnknownOutcome {
		return true
	}
	return apipb.CodeOf(err) == codes.Unavailable || timedOut(err)
}

// gaveUp is the error after the last try. A coordinator that says what is wrong tells more than one that is silent, and one
// that is connected but slow is not unreachable.
func (c *Client) gaveUp(ctx context.Context, last []error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("ask a coordinator: %w", ctx.Err())
	}
	slow := true
	for _, err := range last {
		if err == nil {
			continue
		}
		if detail, ok := apipb.DetailOf(err); ok {
			return &Fault{Exit: exitOf(apipb.CodeOf(err)), Code: detail.Code, Err: errors.New(apipb.MessageOf(err)), Hints: detail.Hints, Retryable: true}
		}
		slow = slow && timedOut(err)
	}
	texts := c.said(last)
	if slow {
		return fmt.Errorf("no answer in time (%s): %w", strings.Join(texts, "; "), context.DeadlineExceeded)
	}
	return &Fault{
		Exit: ExitUnreachable, Code: CodeUnreachable, Retryable: true,
		Err:   fmt.Errorf("no coordinator answered (%s)", strings.Join(texts, "; ")),
		Hints: []string{"start a cluster: sluice dev", "or name the coordinators of one: --addr HOST:PORT,… or SLUICE_ADDR"},
	}
}

// said is what each coordinator said last, with its address.
func (c *Client) said(last []error) (texts []string) {
	for i, n := range c.nodes {
		if last[i] != nil {
			texts = append(texts, n.addr+": "+brief(last[i]))
		}
	}
	return texts
}

func timedOut(err error) bool {
	return apipb.CodeOf(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// brief is the last part of a transport's error, where the cause stands.
func brief(err error) string {
	if timedOut(err) {
		return "no answer"
	}
	text := apipb.MessageOf(err)
	for _, cause := range []string{"connection refused", "no such host", "connection reset", "not loopback", "no route to host", "i/o timeout"} {
		if strings.Contains(text, cause) {
			return cause
		}
	}
	return text
}

// sleep waits for d; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
