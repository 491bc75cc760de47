package state

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

func (t *tx) initCluster(c *commandpb.InitCluster) Result {
	if t.cluster != "" {
		return stale("", "the cluster is %s", t.cluster)
	}
	t.cluster = c.Cluster
	t.event(&jobpb.Event{Kind: "cluster-initialised", Message: c.Cluster})
	return applied("")
}

func (t *tx) putNode(n *commandpb.Node) Result {
	if old := t.Node(n.Id); old != nil && proto.Equal(old, n) {
		return stale("", "coordinator %s is known like this", n.Id)
	}
	if t.Node(n.Id) == nil {
		t.event(&jobpb.Event{Kind: "coordinator-added", Message: n.Id + " at " + n.ApiAddress})
	}
	t.nodes = t.nodes.Put(n.Id, n)
	t.note(changeNode, n)
	return applied("")
}

func (t *tx) removeNode(id string) Result {
	if t.Node(id) == nil {
		return stale("", "no coordinator %s", id)
	}
	t.nodes = t.nodes.Del(id)
	t.gone(changeNode, id)
	t.event(&jobpb.Event{Kind: "coordinator-removed", Message: id})
	return applied("")
}

func (t *tx) leaderElected(c *commandpb.LeaderElected) Result {
	if c.Term <= t.View.term {
		return stale("", "term %d has announced %s", t.View.term, t.leader)
	}
	t.View.term, t.leader = c.Term, c.Id
	t.event(&jobpb.Event{Kind: "leader-elected", Message: c.Id})
	return applied("")
}

// registerWorker takes a higher incarnation for a lower one and refreshes an equal one. Attempts of an incarnation that
// was replaced are lost: whoever schedules sees it by comparing incarnations.
func (t *tx) registerWorker(w *commandpb.Worker) Result {
	old := t.Worker(w.Id)
	if old != nil && w.Incarnation < old.Incarnation {
		return refused("", "worker %s has incarnation %d, %d is older", w.Id, old.Incarnation, w.Incarnation)
	}
	n := &commandpb.Worker{
		Id: w.Id, Incarnation: w.Incarnation, Address: w.Address, DataAddress: w.DataAddress, Slots: w.Slots, Memory: w.Memory,
		Version: w.Version, ProtocolMin: w.ProtocolMin, ProtocolMax: w.ProtocolMax, Os: w.Os, Arch: w.Arch, Host: w.Host,
		Zone: w.Zone, Health: commandpb.WorkerHealth_WORKER_ALIVE, SinceUs: t.now,
	}
	if old != nil {
		if !old.DrainOnce || old.Incarnation == w.Incarnation {
			n.Draining, n.DrainDeadlineUs, n.DrainOnce = old.Draining, old.DrainDeadlineUs, old.DrainOnce
		}
		if old.Incarnation == w.Incarnation && old.Health == n.Health {
			n.SinceUs = old.SinceUs
			if proto.Equal(old, n) {
				return stale("", "worker %s is registered like this", w.Id)
			}
		}
	}
	if old == nil || old.Incarnation != n.Incarnation || old.Health != n.Health {
		t.event(&jobpb.Event{Kind: "worker-registered", Worker: w.Id, Message: w.Address})
	}
	t.putWorker(n)
	t.forgetLostWorkers()
	return applied("")
}

func (t *tx) putWorker(w *commandpb.Worker) {
	t.workers = t.workers.Put(w.Id, w)
	t.note(changeWorker, w)
}

// forgetLostWorkers keeps the list of workers from growing with every data directory that ever was.
func (t *tx) forgetLostWorkers() {
	for id, w := range t.workers.All() {
		if w.Health == commandpb.WorkerHealth_WORKER_LOST && t.now-w.SinceUs > LostWorkerMicros {
			t.workers = t.workers.Del(id)
			t.gone(changeWorker, id)
		}
	}
}

func (t *tx) loseWorker(c *commandpb.LoseWorker) Result {
	w := t.Worker(c.Worker)
	if w == nil {
		return refused(CodeNoWorker, "no worker %s", c.Worker)
	}
	if w.Incarnation != c.Incarnation || w.Health == commandpb.WorkerHealth_WORKER_LOST {
		return stale("", "worker %s has incarnation %d and is %s", w.Id, w.Incarnation, healthName(w.Health))
	}
	n := copyWorker(w)
	n.Health, n.SinceUs = commandpb.WorkerHealth_WORKER_LOST, t.now
	t.putWorker(n)
	t.event(&jobpb.Event{Kind: "worker-lost", Worker: w.Id, Message: c.Reason})
	return applied("")
}

func healthName(h commandpb.WorkerHealth) string {
	if h == commandpb.WorkerHealth_WORKER_ALIVE {
		return "alive"
	}
	return "lost"
}

func copyWorker(w *commandpb.Worker) *commandpb.Worker { return proto.CloneOf(w) }

func (t *tx) setDrain(c *commandpb.SetDrain) Result {
	w := t.Worker(c.Worker)
	if w == nil {
		return refused(CodeNoWorker, "no worker %s", c.Worker)
	}
	if c.Incarnation != 0 && c.Incarnation != w.Incarnation {
		return stale("", "worker %s has incarnation %d", w.Id, w.Incarnation)
	}
	n := copyWorker(w)
	n.Draining, n.DrainDeadlineUs, n.DrainOnce = c.Drain, 0, false
	if c.Drain {
		n.DrainDeadlineUs, n.DrainOnce = c.DeadlineUs, c.Incarnation != 0
	}
	if proto.Equal(w, n) {
		return stale("", "worker %s is like this", w.Id)
	}
	t.putWorker(n)
	kind := "worker-undrained"
	if c.Drain {
		kind = "worker-draining"
	}
	if w.Draining != c.Drain {
		t.event(&jobpb.Event{Kind: kind, Worker: w.Id})
	}
	return applied("")
}

func (t *tx) putArtifact(c *commandpb.PutArtifact) Result {
	a := &commandpb.Artifact{Digest: c.Digest, Size: c.Size, Os: c.Os, Arch: c.Arch, Nodes: c.Nodes, SinceUs: t.now}
	if old := t.Artifact(c.Digest); old != nil {
		if old.Size != c.Size || old.Os != c.Os || old.Arch != c.Arch {
			return refused("", "artifact %.12s is known with other properties", c.Digest)
		}
		a.SinceUs = old.SinceUs
		if proto.Equal(old, a) {
			return stale("", "artifact %.12s is known like this", c.Digest)
		}
	}
	t.artifacts = t.artifacts.Put(c.Digest, a)
	t.note(changeArtifact, a)
	return applied("")
}

func (t *tx) removeArtifact(digest string) Result {
	if t.Artifact(digest) == nil {
		return stale("", "no artifact %.12s", digest)
	}
	for _, j := range t.jobs.All() {
		if j.head.Spec.Artifact == digest && !Terminal(j.Status()) {
			return refused(CodeInUse, "job %s needs artifact %.12s", j.ID(), digest)
		}
	}
	t.artifacts = t.artifacts.Del(digest)
	t.gone(changeArtifact, digest)
	return applied("")
}

// place names one incarnation of a worker, as a key.
func place(worker string, incarnation uint64) string {
	b := make([]byte, 0, len(worker)+9)
	b = append(b, worker...)
	b = append(b, 0)
	return string(binary.BigEndian.AppendUint64(b, incarnation))
}

// use changes the number of granted slots of one incarnation of a worker.
func (t *tx) use(worker string, incarnation uint64, delta int32) {
	k := place(worker, incarnation)
	n, _ := t.used.Get(k)
	if n += delta; n == 0 {
		t.used = t.used.Del(k)
		return
	}
	t.used = t.used.Put(k, n)
}
