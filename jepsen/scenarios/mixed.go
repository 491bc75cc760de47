package scenarios

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/jepsen/cluster"
	"github.com/sluiceio/sluice/jepsen/history"
	"github.com/sluiceio/sluice/jepsen/traffic"
)

func (l *Lab) client(name string, n uint64) *traffic.Client {
	return traffic.NewClient(l.C, l.log, name, l.Seed, n)
}

// mixed draws one fault after another.
func mixed(ctx context.Context, l *Lab) error {
	kinds := []struct {
		weight int
		f      func(context.Context, *Lab) error
	}{
		{4, killLeaders}, {3, pauseLeader}, {3, cutLeader}, {3, cutOneWay}, {2, transferStorm}, {2, flap}, {1, allCoordinators}, {3, killWorker}, {2, killEarly}, {2, leaderDuringRestart},
		{1, zombie}, {1, cutWorker}, {1, powerFails}, {1, controlResets}, {1, tornFrame},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	end := time.Now().Add(l.Duration)
	part := *l
	for time.Now().Before(end) {
		draw := l.rnd.IntN(total)
		for _, k := range kinds {
			if draw -= k.weight; draw >= 0 {
				continue
			}
			part.Duration = l.around(5 * time.Second)
			if err := k.f(ctx, &part); err != nil {
				return err
			}
			break
		}
		if err := errors.Join(l.Hand.HealAll(ctx), cluster.Rest(ctx, l.around(2*time.Second))); err != nil {
			return err
		}
	}
	return nil
}

// garbage talks nonsense to every port.
func garbage(ctx context.Context, l *Lab) error {
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			_ = c.Close()
		}
	}()
	for _, n := range l.C.Nodes() {
		for _, port := range n.Ports() {
			for range 100 {
				c, err := wire.Policy{}.Dial(ctx, port)
				if err != nil {
					return fmt.Errorf("idle connection to %s: %w", n.Name(), err)
				}
				idle = append(idle, c)
			}
			l.log.Hurt("garbage", history.Hurt{Target: "client-0>" + n.Name(), Detail: port})
			for _, size := range []int{1, 24, 4096, 1 << 20} {
				if err := l.nonsense(ctx, port, size); err != nil {
					return fmt.Errorf("%s: %w", n.Name(), err)
				}
			}
		}
	}
	err := cluster.Rest(ctx, l.Duration)
	for _, n := range l.C.Nodes() {
		if !n.Alive() {
			err = errors.Join(err, fmt.Errorf("%s has ended", n.Name()))
		}
	}
	return err
}

// nonsense sends bytes of no protocol, and a frame of gRPC that announces 1 GiB.
func (l *Lab) nonsense(ctx context.Context, port string, size int) error {
	c, err := wire.Policy{}.Dial(ctx, port)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return err
	}
	junk := make([]byte, size)
	if _, err := rand.Read(junk); err != nil {
		return err
	}
	if size == 24 { // the preface of HTTP/2, settings, and then a frame that is too long
		junk = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x00\x01\x00\x40\x00\x00\x00")
	}
	_, _ = c.Write(junk) // it may hang up at once,
	_, _ = io.ReadAll(c) // say something,
	return nil           // or wait: all of that is right
}
