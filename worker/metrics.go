package worker

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

// counters are what the agent counts; everything else that it exposes is read where it stands.
type counters struct {
	exits       byKind
	builds      byLabel
	connections byLabel
	stale       atomic.Int64 // messages of leaders of an older term
}

func newCounters() *counters { return &counters{} }

// byLabel counts events of a few kinds.
type byLabel struct{ counts sync.Map } // string → *atomic.Int64

func (b *byLabel) note(label string) {
	n, ok := b.counts.Load(label)
	if !ok {
		n, _ = b.counts.LoadOrStore(label, &atomic.Int64{})
	}
	n.(*atomic.Int64).Add(1)
}

func (b *byLabel) each(f func(label string, n float64)) {
	b.counts.Range(func(label, n any) bool {
		f(label.(string), float64(n.(*atomic.Int64).Load()))
		return true
	})
}

// byKind counts ends of task processes by what they mean.
type byKind struct{ byLabel }

func (b *byKind) note(k jobpb.FailureKind) {
	b.byLabel.note(map[jobpb.FailureKind]string{
		jobpb.FailureKind_FAILURE_UNSPECIFIED: "asked", jobpb.FailureKind_FAILURE_USER: "user",
		jobpb.FailureKind_FAILURE_LOSS: "loss", jobpb.FailureKind_FAILURE_FATAL: "fatal",
	}[k])
}

// collector reads the agent when it is scraped.
type collector struct{ agent *agent }

var _ prometheus.Collector = (*collector)(nil)

// Describe sends nothing: which processes and chains there are is not known before.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// metric describes one family.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("sluice_"+name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("sluice_"+name, help, labels, nil), prometheus.CounterValue}
}

// Collect reads everything.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	a := c.agent
	emit := func(m metric, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
	}
	a.connection.mu.Lock()
	registered, term, losses, draining := a.connection.mu.leader != "", a.connection.mu.term, a.connection.mu.losses, a.connection.mu.draining
	a.connection.mu.Unlock()
	emit(gauge("worker_info", "Identity of this worker.", "worker", "version", "zone"), 1, a.id.ID, a.cfg.Version, a.cfg.Zone)
	emit(counter("worker_incarnation", "Starts of this worker."), float64(a.id.Incarnation))
	emit(gauge("worker_registered", "1 while a leader holds a session with this worker."), truth(registered))
	emit(gauge("worker_draining", "1 while the leader gives this worker no new work."), truth(draining))
	emit(gauge("worker_term", "Highest Raft term that this worker has obeyed."), float64(term))
	emit(counter("worker_sessions_lost_total", "Sessions with a leader that ended."), float64(losses))
	emit(counter("worker_stale_messages_total", "Messages of leaders of an older term, refused."), float64(a.counters.stale.Load()))
	emit(gauge("worker_slots_offered", "Slots of this worker; how many are used is the coordinators' sluice_worker_slots."), float64(a.cfg.Slots))
	emit(gauge("worker_memory_bytes", "Memory that the slots share."), float64(a.cfg.Memory))
	emit(gauge("worker_reports_pending", "Reports that no leader has committed yet."), float64(a.outbox.Pending()))
	emit(gauge("worker_artifact_bytes", "Size of the cached job binaries."), float64(a.cache.Size()))
	partitions, stored := a.results.Usage()
	emit(gauge("worker_partitions", "Stored results of jobs that are kept here."), float64(partitions))
	emit(gauge("worker_partitions_bytes", "Size of the stored results on disk."), float64(stored))
	reads := counter("worker_partition_reads_total", "Reads of stored results by other workers, by outcome.", "outcome")
	served := a.results.Reads(func(outcome string, n int64) { emit(reads, float64(n), outcome) })
	emit(counter("worker_partition_read_bytes_total", "Bytes of stored results sent to other workers."), float64(served))
	exits := counter("task_process_exits_total", "Ended task processes by what the end means.", "kind")
	a.counters.exits.each(func(kind string, n float64) { emit(exits, n, kind) })
	builds := counter("worker_builds_total", "Build functions run, by outcome.", "outcome")
	a.counters.builds.each(func(outcome string, n float64) { emit(builds, n, outcome) })
	connections := counter("worker_data_connections_total", "Data connections by what became of them.", "outcome")
	a.counters.connections.each(func(outcome string, n float64) { emit(connections, n, outcome) })
	c.processes(emit)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// processes emits what task processes say of themselves.
func (c *collector) processes(emit func(metric, float64, ...string)) {
	resident := gauge("task_process_resident_bytes", "Memory of the task processes of a job, from the system's view.", "job")
	heap := gauge("task_process_heap_bytes", "Memory of the task processes of a job, from the collector's view.", "job")
	slots := gauge("task_process_slots", "Slots that the task processes of a job hold here.", "job")
	network := gauge("task_process_network_bytes", "Network memory of the task processes of a job here: reserved for edges, and all there is.", "job", "kind")
	spilling := gauge("task_process_spill_files", "Open spill files of the task processes of a job here.", "job")
	type sum struct{ resident, heap, slots, reserved, limit, spilling float64 }
	jobs := map[string]*sum{}
	chains := map[chainKey]*taskpb.Counters{}
	for _, p := range c.agent.table.list() {
		job := jobs[p.key.job]
		if job == nil {
			job = &sum{}
			jobs[p.key.job] = job
		}
		p.mu.Lock()
		sample, names, held := p.mu.sample, p.mu.chains, p.mu.slots
		p.mu.Unlock()
		job.slots += float64(held)
		if sample == nil {
			continue
		}
		job.resident += float64(sample.ResidentBytes)
		job.heap += float64(sample.HeapBytes)
		job.reserved += float64(sample.NetworkBytes)
		job.limit += float64(sample.NetworkLimitBytes)
		job.spilling += float64(sample.SpillFiles)
		for _, s := range sample.Counters {
			if int(s.Chain) < len(names) {
				addCounters(chains, chainKey{p.key.job, names[s.Chain].Name}, s)
			}
		}
	}
	for name, s := range jobs {
		emit(resident, s.resident, name)
		emit(heap, s.heap, name)
		emit(slots, s.slots, name)
		emit(network, s.reserved, name, "reserved")
		emit(network, s.limit, name, "limit")
		emit(spilling, s.spilling, name)
	}
	emitChains(emit, chains)
}

// chainKey names a chain of a job.
type chainKey struct{ job, chain string }

// addCounters adds up the subtasks of a chain on this worker; its watermark is the lowest.
func addCounters(chains map[chainKey]*taskpb.Counters, key chainKey, s *taskpb.Counters) {
	sum := chains[key]
	if sum == nil {
		sum = &taskpb.Counters{WatermarkUs: s.WatermarkUs}
		chains[key] = sum
	}
	sum.RecordsIn += s.RecordsIn
	sum.RecordsOut += s.RecordsOut
	sum.BytesIn += s.BytesIn
	sum.BytesOut += s.BytesOut
	sum.BusyUs += s.BusyUs
	sum.IdleUs += s.IdleUs
	sum.BackpressuredUs += s.BackpressuredUs
	sum.WatermarkUs = min(sum.WatermarkUs, s.WatermarkUs)
	sum.Late += s.Late
	sum.ErrorsSkipped += s.ErrorsSkipped
	sum.DeadLetters += s.DeadLetters
	sum.StateBytes += s.StateBytes
	sum.Replayed += s.Replayed
	sum.SpilledBytes += s.SpilledBytes
	sum.SpilledRecords += s.SpilledRecords
	sum.SpillFiles += s.SpillFiles
	sum.SpillDepth = max(sum.SpillDepth, s.SpillDepth)
	sum.StoredBytes += s.StoredBytes
	sum.RereadBytes += s.RereadBytes
}

func emitChains(emit func(metric, float64, ...string), chains map[chainKey]*taskpb.Counters) {
	const microsecond = 1e-6
	family := func(name, help string) metric { return counter("chain_"+name, help, "job", "chain") }
	in, out := family("records_in_total", "Records received by the subtasks here."), family("records_out_total", "Records emitted.")
	bytesIn, bytesOut := family("bytes_in_total", "Encoded bytes received."), family("bytes_out_total", "Encoded bytes sent.")
	late, skipped := family("late_records_total", "Records dropped as late."), family("errors_skipped_total", "Records dropped by their error policy.")
	letters := family("dead_letters_total", "Records that their error policy has made letters of.")
	replayed, spilled := family("replayed_records_total", "Records processed again."), family("spilled_bytes_total", "Bytes moved from memory to disk.")
	spilledRecords, files := family("spilled_records_total", "Records moved from memory to disk."), family("spill_files_total", "Spill files made.")
	depth := gauge("chain_spill_depth", "Deepest level of recursive partitions or merge passes.", "job", "chain")
	stored, reread := family("stored_bytes_total", "Bytes written into stored results."), family("stored_read_bytes_total", "Bytes read from stored results.")
	spent := counter("chain_time_seconds_total", "Time of the subtasks here, by what it was spent on.", "job", "chain", "kind")
	state := gauge("chain_state_bytes", "Size of the keyed state.", "job", "chain")
	watermark := gauge("chain_watermark_seconds", "Lowest watermark of the subtasks here, in Unix time.", "job", "chain")
	for k, s := range chains {
		emit(in, float64(s.RecordsIn), k.job, k.chain)
		emit(out, float64(s.RecordsOut), k.job, k.chain)
		emit(bytesIn, float64(s.BytesIn), k.job, k.chain)
		emit(bytesOut, float64(s.BytesOut), k.job, k.chain)
		emit(late, float64(s.Late), k.job, k.chain)
		emit(skipped, float64(s.ErrorsSkipped), k.job, k.chain)
		emit(letters, float64(s.DeadLetters), k.job, k.chain)
		emit(replayed, float64(s.Replayed), k.job, k.chain)
		emit(spilled, float64(s.SpilledBytes), k.job, k.chain)
		emit(spilledRecords, float64(s.SpilledRecords), k.job, k.chain)
		emit(files, float64(s.SpillFiles), k.job, k.chain)
		emit(depth, float64(s.SpillDepth), k.job, k.chain)
		emit(stored, float64(s.StoredBytes), k.job, k.chain)
		emit(reread, float64(s.RereadBytes), k.job, k.chain)
		emit(spent, float64(s.BusyUs)*microsecond, k.job, k.chain, "busy")
		emit(spent, float64(s.IdleUs)*microsecond, k.job, k.chain, "idle")
		emit(spent, float64(s.BackpressuredUs)*microsecond, k.job, k.chain, "backpressured")
		emit(state, float64(s.StateBytes), k.job, k.chain)
		if s.WatermarkUs > noWatermark {
			emit(watermark, float64(s.WatermarkUs)*microsecond, k.job, k.chain)
		}
	}
}

// noWatermark is the value of a chain that has none yet.
const noWatermark = -1 << 63
