package coordinator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceio/sluice/coordinator/internal/clustertest"
	"github.com/sluiceio/sluice/proto/apipb"
)

// BenchmarkSubmit is a submit to a cluster of three on one disk, from the client's call to its answer: one client, and
// many at the same time, whose entries share syncs.
func BenchmarkSubmit(b *testing.B) {
	c := clustertest.New(b, clustertest.Options{Where: clustertest.OnDisk})
	leader := c.AwaitLeader()
	follower := c.Followers(leader)[0]
	digest, _, err := clustertest.Upload(b.Context(), leader.Artifacts(), clustertest.Binary("bench"))
	if err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	submit := func(to apipb.JobsClient) error {
		_, err := to.Submit(b.Context(), &apipb.SubmitRequest{
			Spec: clustertest.Spec("bench", digest), RequestId: fmt.Sprint("bench-", n.Add(1)),
		})
		return err
	}
	for _, to := range []struct {
		name string
		jobs apipb.JobsClient
	}{{"leader", leader.Jobs()}, {"follower", follower.Jobs()}} {
		b.Run(to.name, func(b *testing.B) {
			for b.Loop() {
				if err := submit(to.jobs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("leader/32 clients", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := submit(leader.Jobs()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkRead is a linearizable read: one round of heartbeats, no entry in the log.
func BenchmarkRead(b *testing.B) {
	c := clustertest.New(b, clustertest.Options{Where: clustertest.OnDisk})
	leader := c.AwaitLeader()
	b.Run("fresh", func(b *testing.B) {
		for b.Loop() {
			if _, err := leader.Jobs().List(b.Context(), &apipb.ListRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stale", func(b *testing.B) {
		for b.Loop() {
			if _, err := leader.Jobs().List(b.Context(), &apipb.ListRequest{Stale: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFailover is the time from the death of the leader to the next fresh answer through a follower.
func BenchmarkFailover(b *testing.B) {
	c := clustertest.New(b, clustertest.Options{Where: clustertest.OnDisk})
	for b.Loop() {
		b.StopTimer()
		leader := c.AwaitLeader()
		asked := c.Followers(leader)[0]
		b.StartTimer()
		if err := leader.Kill(); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
		for {
			if _, err := asked.Jobs().List(ctx, &apipb.ListRequest{}); err == nil {
				break
			} else if ctx.Err() != nil {
				b.Fatal(err)
			}
		}
		cancel()
		b.StopTimer()
		leader.Start()
		b.StartTimer()
	}
}
