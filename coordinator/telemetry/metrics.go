package telemetry

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluiceio/sluice/coordinator/state"
	"github.com/sluiceio/sluice/proto/commandpb"
	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/jobpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

const namespace = "sluice"

// Metrics of one node. What the facts, Raft or the sessions know is read when somebody asks; only what nobody else
// counts is counted here.
type Metrics struct {
	Registry      *prometheus.Registry
	LeaderChanges prometheus.Counter
	Reigns        prometheus.Counter
	Installs      prometheus.Counter // snapshots sent to a follower that had got others shortly before
	apply         prometheus.Histogram
}

// New makes the metrics that are counted. Watch adds those that are read.
func New() *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		LeaderChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "raft_leader_changes_total", Help: "Leaders that this coordinator has come to know.",
		}),
		Reigns: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "raft_reigns_total", Help: "Times that this coordinator has begun to lead.",
		}),
		Installs: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "raft_repeated_snapshot_installs_total",
			Help: "Snapshots sent to a follower that had got others shortly before: it cannot keep up.",
		}),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "raft_apply_seconds", Help: "Time to apply one committed entry to the facts.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 9),
		}),
	}
	m.Registry.MustRegister(m.LeaderChanges, m.Reigns, m.Installs, m.apply,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Applied notes how long an entry took.
func (m *Metrics) Applied(d time.Duration) { m.apply.Observe(d.Seconds()) }

// Raft is what Raft says of itself.
type Raft struct {
	Term, Commit, Applied uint64
	Leads                 bool
	Contact               time.Duration // since this node heard from a leader
	Voters, NonVoters     int
}

// Source is a running node. Its methods are called by whoever scrapes, at any time.
type Source interface {
	Raft() Raft
	Facts() *state.View
	// Samples are the newest of all task processes; none on a follower.
	Samples() []*controlpb.ProcessSample
}

// Watch reads a node whenever it is scraped.
func (m *Metrics) Watch(s Source) { m.Registry.MustRegister(collector{s}) }

type collector struct{ source Source }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// descs are made anew per scrape: they are cheap, and a scrape is rare.
type descs struct {
	term, commit, applied, contact, leads, voters  *prometheus.Desc
	jobs, restarts, slots, workers, memory         *prometheus.Desc
	records, bytes, busy, late, skipped, watermark *prometheus.Desc
	state, artifacts                               *prometheus.Desc
	spilled, stored, partitions, user              *prometheus.Desc
}

func makeDescs() descs {
	return descs{
		term:       desc("raft_term", "Raft term that this coordinator is in."),
		commit:     desc("raft_commit_index", "Newest committed entry that this coordinator knows."),
		applied:    desc("raft_applied_index", "Newest entry applied here."),
		contact:    desc("raft_last_contact_seconds", "Time since this coordinator heard from a leader; 0 on the leader."),
		leads:      desc("raft_leader", "1 on the coordinator that leads, else 0."),
		voters:     desc("raft_peers", "Coordinators of the cluster.", "suffrage"),
		jobs:       desc("job_status", "Jobs in each status.", "status"),
		restarts:   desc("job_restarts_total", "Restarts of a job by the failures that caused them.", "job", "reason"),
		slots:      desc("worker_slots", "Slots of live workers.", "state"),
		workers:    desc("workers", "Workers by health.", "health"),
		memory:     desc("task_process_rss_bytes", "Resident memory of a job's task processes.", "job"),
		records:    desc("operator_records_total", "Records that passed a chain since its attempts started.", "job", "op", "direction"),
		bytes:      desc("operator_bytes_total", "Bytes that passed a chain since its attempts started.", "job", "op", "direction"),
		busy:       desc("operator_time_seconds_total", "Time of a chain's subtasks since their attempts started.", "job", "op", "kind"),
		late:       desc("operator_late_records_total", "Records that came after their window was closed.", "job", "op"),
		skipped:    desc("errors_total", "Records given up by an error policy.", "job", "op", "policy"),
		watermark:  desc("operator_watermark_lag_seconds", "Age of a chain's lowest watermark.", "job", "op"),
		state:      desc("state_bytes", "Keyed state of a chain.", "job", "op"),
		spilled:    desc("operator_spilled_bytes_total", "Bytes that a chain moved from memory to disk since its attempts started.", "job", "op"),
		stored:     desc("job_stored_bytes", "Size of what a job has stored for its blocking exchanges, released results included.", "job"),
		partitions: desc("job_partitions", "Stored results of the subtasks of a job.", "job", "state"),
		user:       desc("user_counter_total", "What an operator counts itself (Setup.Counter), since its attempts started.", "job", "op", "counter"),
		artifacts:  desc("artifacts", "Job binaries that the cluster keeps."),
	}
}

// Describe sends nothing: which series exist depends on the jobs.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the node.
func (c collector) Collect(out chan<- prometheus.Metric) {
	d := makeDescs()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	c.raft(d, gauge)
	view := c.source.Facts()
	c.facts(d, view, gauge, func(desc *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v, labels...)
	})
	samples := c.source.Samples()
	for job, chains := range sumChains(view, samples) {
		for name, sum := range chains {
			sum.collect(d, job, name, out)
		}
	}
	memory := map[string]float64{}
	for _, p := range samples {
		memory[p.Job] += float64(p.Sample.ResidentBytes)
	}
	for job, bytes := range memory {
		gauge(d.memory, bytes, job)
	}
}

type metricFunc func(desc *prometheus.Desc, v float64, labels ...string)

func (c collector) raft(d descs, gauge metricFunc) {
	r := c.source.Raft()
	gauge(d.term, float64(r.Term))
	gauge(d.commit, float64(r.Commit))
	gauge(d.applied, float64(r.Applied))
	leads := 0.0
	if r.Leads {
		leads = 1
	}
	gauge(d.leads, leads)
	gauge(d.contact, r.Contact.Seconds())
	gauge(d.voters, float64(r.Voters), "voter")
	gauge(d.voters, float64(r.NonVoters), "nonvoter")
}

func (c collector) facts(d descs, view *state.View, gauge, count metricFunc) {
	counts := map[jobpb.JobStatus]int{}
	for job := range view.Jobs() {
		head := job.Head()
		counts[head.Status]++
		count(d.restarts, float64(head.Restarts), head.Id, "failure")
		count(d.restarts, float64(head.Losses), head.Id, "loss")
		results(d, job, gauge)
	}
	for n := range jobpb.JobStatus_name {
		if s := jobpb.JobStatus(n); s != jobpb.JobStatus_JOB_UNSPECIFIED {
			gauge(d.jobs, float64(counts[s]), strings.ToLower(state.StatusName(s)))
		}
	}
	used, all, alive, lost := 0, 0, 0, 0
	for w := range view.Workers() {
		if w.Health != commandpb.WorkerHealth_WORKER_ALIVE {
			lost++
			continue
		}
		alive++
		all += int(w.Slots)
		used += view.UsedSlots(w.Id)
	}
	gauge(d.slots, float64(used), "used")
	gauge(d.slots, float64(all-used), "free")
	gauge(d.workers, float64(alive), "alive")
	gauge(d.workers, float64(lost), "lost")
	artifacts := 0
	for range view.Artifacts() {
		artifacts++
	}
	gauge(d.artifacts, float64(artifacts))
}

// results are what a running job has stored; those of an ended one are gone.
func results(d descs, job *state.Job, gauge metricFunc) {
	if state.Terminal(job.Status()) || job.Plan() == nil {
		return
	}
	var sum state.Results
	for _, e := range job.Plan().Edges {
		r := job.Results(e.Index)
		sum.Stored, sum.Lost, sum.Released = sum.Stored+r.Stored, sum.Lost+r.Lost, sum.Released+r.Released
		sum.Bytes += r.Bytes
	}
	id := job.Head().Id
	gauge(d.stored, float64(sum.Bytes), id)
	gauge(d.partitions, float64(sum.Stored), id, "stored")
	gauge(d.partitions, float64(sum.Lost), id, "lost")
	gauge(d.partitions, float64(sum.Released), id, "released")
}

// chainSum adds up the counters of a chain's subtasks.
type chainSum struct {
	taskpb.Counters
	lowest int64 // watermark, microseconds; lowest int64: none yet
	seen   bool
	user   map[userCount]int64
}

// userCount is a counter of a job's own.
type userCount struct{ op, name string }

// sumChains adds up the newest samples by job and chain.
func sumChains(view *state.View, samples []*controlpb.ProcessSample) map[string]map[string]*chainSum {
	jobs := map[string]map[string]*chainSum{}
	for _, p := range samples {
		job := view.Job(p.Job)
		if job == nil || job.Plan() == nil {
			continue
		}
		if jobs[p.Job] == nil {
			jobs[p.Job] = map[string]*chainSum{}
		}
		for _, k := range p.Sample.Counters {
			name := strconv.Itoa(int(k.Chain))
			if int(k.Chain) < len(job.Plan().Chains) {
				name = job.Plan().Chains[k.Chain].Name
			}
			if jobs[p.Job][name] == nil {
				jobs[p.Job][name] = &chainSum{}
			}
			jobs[p.Job][name].add(k)
		}
	}
	return jobs
}

func (s *chainSum) add(k *taskpb.Counters) {
	s.RecordsIn += k.RecordsIn
	s.RecordsOut += k.RecordsOut
	s.BytesIn += k.BytesIn
	s.BytesOut += k.BytesOut
	s.BusyUs += k.BusyUs
	s.IdleUs += k.IdleUs
	s.BackpressuredUs += k.BackpressuredUs
	s.Late += k.Late
	s.ErrorsSkipped += k.ErrorsSkipped
	s.DeadLetters += k.DeadLetters
	s.StateBytes += k.StateBytes
	s.SpilledBytes += k.SpilledBytes
	for _, u := range k.User {
		if s.user == nil {
			s.user = map[userCount]int64{}
		}
		s.user[userCount{u.Operator, u.Name}] += u.Value
	}
	if !s.seen || k.WatermarkUs < s.lowest {
		s.seen, s.lowest = true, k.WatermarkUs
	}
}

func (s *chainSum) collect(d descs, job, op string, out chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v, append([]string{job, op}, labels...)...)
	}
	counter(d.records, float64(s.RecordsIn), "in")
	counter(d.records, float64(s.RecordsOut), "out")
	counter(d.bytes, float64(s.BytesIn), "in")
	counter(d.bytes, float64(s.BytesOut), "out")
	counter(d.busy, seconds(s.BusyUs), "busy")
	counter(d.busy, seconds(s.IdleUs), "idle")
	counter(d.busy, seconds(s.BackpressuredUs), "backpressured")
	counter(d.late, float64(s.Late))
	counter(d.skipped, float64(s.ErrorsSkipped), "skip")
	counter(d.skipped, float64(s.DeadLetters), "dead-letters")
	counter(d.spilled, float64(s.SpilledBytes))
	out <- prometheus.MustNewConstMetric(d.state, prometheus.GaugeValue, float64(s.StateBytes), job, op)
	for u, n := range s.user {
		out <- prometheus.MustNewConstMetric(d.user, prometheus.CounterValue, float64(n), job, u.op, u.name)
	}
	if lag, ok := s.lag(time.Now()); ok {
		out <- prometheus.MustNewConstMetric(d.watermark, prometheus.GaugeValue, lag.Seconds(), job, op)
	}
}

// lag is the age of the lowest watermark. The ends of the scale mean "none yet" and "everything was read": no lag can be
// told then.
func (s *chainSum) lag(now time.Time) (time.Duration, bool) {
	if s.lowest <= 0 || s.lowest > now.Add(maxLead).UnixMicro() {
		return 0, false
	}
	lag := now.Sub(time.UnixMicro(s.lowest))
	return lag, lag < maxLead
}

// maxLead bounds what counts as an event time near the present.
const maxLead = 100 * 365 * 24 * time.Hour

func seconds(micros int64) float64 { return float64(micros) / 1e6 }
