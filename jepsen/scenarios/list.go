package scenarios

import "time"

// All scenarios, by number, then those without one.
func All() []Scenario {
	list := append(coordinators(), network()...)
	list = append(list, workers()...)
	list = append(list, checkpoints()...)
	list = append(list, others()...)
	for i := range list {
		s := &list[i]
		if s.Place == "" {
			s.Place = plain
		}
		if s.Members == 0 {
			s.Members = 3
		}
		if s.Lasts == 0 {
			s.Lasts = defaultFaults
		}
		if s.Clients == 0 {
			s.Clients = 2
		}
	}
	sortByNumber(list)
	return list
}

// always must be shown by every scenario with the ordinary workload.
func always(more ...string) []string {
	return append([]string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I10", "I13", "I15"}, more...)
}

func coordinators() []Scenario {
	return []Scenario{
		{Number: 1, Name: "leader-storm", Fault: "kill -9 under a storm of submits and retries through all nodes", Target: "leader", Judged: always("I11", "I12", "I17"),
			Gate: true, Clients: 6, Lasts: 12 * time.Second, faults: killLeaders},
		{Number: 4, Name: "leader-during-restart", Fault: "kill while a job restarts", Target: "leader", Judged: always("I11", "I12"), faults: leaderDuringRestart},
		{Number: 5, Name: "all-coordinators", Fault: "kill all coordinators, start again", Target: "coordinators", Judged: always("I12", "I17"), Gate: true, Lasts: 6 * time.Second, faults: allCoordinators},
		{Number: 6, Name: "leader-paused", Fault: "pause longer than the election timeout, resume", Target: "leader", Judged: always("I11", "I12", "I17"), Gate: true, Lasts: 10 * time.Second, faults: pauseLeader},
		{Number: 12, Name: "transfer-storm", Fault: "leadership transfer storm with cuts", Target: "leader", Judged: always("I11", "I12", "I17"), Place: proxies, faults: transferStorm},
		{Number: 13, Name: "far-behind", Fault: "follower far behind gets a snapshot", Target: "follower", Judged: always("I11", "I12"), Needs: []Need{LongRaftLog}},
		{Number: 14, Name: "sync-hangs", Fault: "fsync hangs 60 s", Target: "leader, follower", Judged: always("I11", "I12", "I17"), Needs: []Need{Strace}, Lasts: 20 * time.Second, faults: syncHangs},
		{Number: 15, Name: "raft-disk-full", Fault: "disk full on the Raft directory, freed later", Target: "leader", Judged: always("I11", "I12"), Needs: []Need{Root}, faults: diskFull},
		{Number: 16, Name: "sync-fails", Fault: "EIO once on fsync", Target: "leader", Judged: always("I11", "I12", "I17"), Needs: []Need{Strace}, Lasts: 6 * time.Second, faults: syncFails},
		{Number: 17, Name: "lost-writes", Fault: "lost unsynced writes at power cut, minority and all", Target: "coordinators", Judged: always("I12"), Needs: []Need{LossyLog}},
		{Number: 18, Name: "torn-raft-log", Fault: "torn Raft log tail; bit flip in the newest Raft snapshot", Target: "one coordinator", Judged: always("I12"), Gate: true, Lasts: 8 * time.Second, faults: tornLog},
		{Number: 19, Name: "replace-coordinators", Fault: "replace three coordinators one by one under load", Target: "membership", Judged: always("I11", "I12"), Lasts: 25 * time.Second, faults: replaceAll},
		{Number: 21, Name: "leadership-flaps", Fault: "leadership flaps near the timeout, 5 min", Target: "leader", Judged: always("I11", "I12", "I17"), Lasts: 5 * time.Minute, faults: flap},
		{Number: 22, Name: "rolling-upgrade", Fault: "rolling upgrade, mixed versions, back", Target: "all", Judged: always("I11", "I12"), Needs: []Need{SecondBuild}},
		{Number: 48, Name: "replaced-then-killed", Fault: "all coordinators replaced one by one, then a worker killed", Target: "membership", Judged: always("I11", "I12"), Lasts: 30 * time.Second, faults: replacedThenKilled},
	}
}

func network() []Scenario {
	return []Scenario{
		{Number: 8, Name: "leader-cut-from-followers", Fault: "leader cut off from followers, still reaching workers and clients", Target: "network", Judged: always("I11", "I12", "I17"), Place: proxies, Lasts: 10 * time.Second, Gate: true, faults: cutLeader},
		{Number: 9, Name: "cut-and-heal", Fault: "cut and heal every 2 s with slow fsync and writes, 10 min", Target: "coordinators", Judged: always("I12"), Place: proxies, Needs: []Need{Strace}, Lasts: 10 * time.Minute, faults: cutAndHeal},
		{Number: 10, Name: "one-way-cut", Fault: "one-way cut leader→followers", Target: "network", Judged: always("I11", "I12", "I17"), Place: proxies, Lasts: 10 * time.Second, Gate: true, faults: cutOneWay},
		{Number: 11, Name: "majorities-ring", Fault: "majorities ring of 5", Target: "network", Judged: always("I11", "I12", "I17"), Place: proxies, Members: 5, Lasts: 10 * time.Second, faults: ring},
		{Number: 27, Name: "worker-cut-off", Fault: "worker cut off from the leader only; from one peer only", Target: "network", Judged: always("I11"), Place: proxies, Lasts: 10 * time.Second, faults: cutWorker},
		{Number: 28, Name: "torn-frame", Fault: "shuffle connection cut after N bytes of a frame", Target: "network", Judged: always("I11"), Place: proxies, Lasts: 10 * time.Second, faults: tornFrame},
		{Number: 29, Name: "control-resets", Fault: "control messages repeated and lost: one in twenty pieces ends its connection", Target: "network", Judged: always("I11"), Place: proxies, faults: controlResets},
		{Number: 37, Name: "worker-off-the-network", Fault: "worker's whole network namespace down 10 s, then back", Target: "worker", Judged: always("I11"), Place: netns, Needs: []Need{Root}, Gate: true, faults: worker10sDown},
		{Number: 39, Name: "garbage", Fault: "idle connections, a message of 1 GiB, garbage bytes on every port", Target: "API", Judged: always("I11"), Lasts: 6 * time.Second, faults: garbage},
		{Number: 40, Name: "credentials", Fault: "names with `../`, no certificate, a worker's certificate calling Submit, expired token", Target: "API", Judged: []string{"I16"}, Needs: []Need{Credentials}},
	}
}

func workers() []Scenario {
	return []Scenario{
		{Number: 23, Name: "kill-worker", Fault: "kill one worker; others untouched", Target: "worker", Judged: always("I11"), Gate: true, Lasts: 8 * time.Second, faults: killWorker},
		{Number: 24, Name: "kill-workers", Fault: "kill a worker every 3 s for 60 s", Target: "worker", Judged: always("I11"), Lasts: 60 * time.Second, faults: killWorkers},
		{Number: 26, Name: "zombie-worker", Fault: "old attempt paused, new attempt runs, old resumes and tries shuffle and sink", Target: "worker", Judged: always("I11"), Lasts: 12 * time.Second, Gate: true, faults: zombie},
		{Number: 30, Name: "state-disk-full", Fault: "state disk full under one of two jobs", Target: "worker disk", Judged: always("I11", "I12"), Needs: []Need{Root}, Lasts: 20 * time.Second, faults: stateDiskFull},
		{Number: 31, Name: "damaged-results", Fault: "finished partition file deleted, truncated, corrupted while its consumer runs and before", Target: "worker disk", Judged: []string{"I14"}, own: true, Gate: true, faults: damagedResults},
		{Number: 32, Name: "lost-results", Fault: "kill the holder of finished BLOCKING results", Target: "worker", Judged: []string{"I14"}, own: true, Gate: true, faults: lostResults},
		{Number: 33, Name: "kill-early", Fault: "kill before the first checkpoint, at random times", Target: "worker", Judged: always("I11"), Lasts: 20 * time.Second, faults: killEarly},
		{Number: 34, Name: "idle-partition", Fault: "source partition goes idle, resumes, goes idle", Target: "source", Judged: []string{"I9", "I11"}, Needs: []Need{IdleInput}},
		{Number: 35, Name: "end-during-fault", Fault: "bounded input ends during a fault", Target: "sink", Judged: []string{"I1", "I2", "I3", "I13"}, Gate: true, Lasts: 5 * time.Second, faults: endDuringFault},
		{Number: 36, Name: "cancel-race", Fault: "cancel racing with finish and with failover", Target: "client", Judged: []string{"I1", "I4", "I8", "I13", "I15"}, Lasts: 10 * time.Second, Clients: 8, Gate: true, faults: cancelRace},
		{Number: 45, Name: "lost-while-loading", Fault: "kill while loading a BLOCKING result whose producer must be re-run in another order", Target: "worker", Judged: []string{"I2", "I14"}, Needs: []Need{Loading}},
	}
}

// checkpoints are those that are about checkpoints alone.
func checkpoints() []Scenario {
	const quick = 250 * time.Millisecond
	return []Scenario{
		{Number: 2, Name: "leader-before-completion", Fault: "kill between chunks written and completion", Target: "leader", Judged: always("I11", "I12", "I17"),
			Interval: quick, Gate: true, points: atCoordinators("snapshot.publish", 3, 8, kills), faults: leadersAtPoint},
		{Number: 3, Name: "leader-before-notice", Fault: "kill between completion and the commit notification", Target: "leader", Judged: always("I11", "I12", "I17"),
			Interval: quick, Gate: true, points: atCoordinators("session.completed", 3, 12, kills), faults: leadersAtPoint},
		{Number: 7, Name: "paused-commit", Fault: "pause in the middle of a sink commit, resume after its replacement runs", Target: "worker", Judged: always("I11", "I12"),
			Interval: quick, Lasts: 30 * time.Second, points: atWorkers(pointPublish, "12", "stop"), faults: pausedCommit},
		{Number: 20, Name: "damaged-chunk", Fault: "bit flip, truncation, deletion of one copy of a checkpoint's objects; of all copies", Target: "snapshot store", Judged: always("I11", "I12"),
			Interval: 4 * time.Second, Lasts: 25 * time.Second, faults: damagedChunk},
		{Number: 25, Name: "kill-in-alignment", Fault: "kill during barrier alignment", Target: "worker", Judged: always("I11", "I12"),
			Interval: quick, Lasts: 20 * time.Second, slots: 1, points: atWorkers(pointTrigger, "6+", "pause(DIR)"), faults: killInAlignment},
		{Number: 38, Name: "both-copies", Fault: "kill both holders' copies one after the other with time to re-replicate between", Target: "snapshot store", Judged: always("I11", "I12"),
			Interval: time.Second, faults: bothCopies},
		{Number: 41, Name: "power-cut", Fault: "power cut of all workers; another one, and a disk wiped", Target: "snapshot store", Judged: always("I11", "I12"), Lasts: 20 * time.Second, faults: powerCut},
		{Number: 42, Name: "aborted-after-freeze", Fault: "checkpoint aborted after the freeze, next one completes, kill", Target: "worker", Judged: always("I11", "I12"),
			Interval: quick, keys: 5000, points: atWorkers("segment.frozen", "6", "error"), faults: abortedThenKilled},
		{Number: 43, Name: "savepoint-then-kill", Fault: "savepoint, then a kill before the next checkpoint", Target: "worker", Judged: always("I11", "I12"), Interval: 6 * time.Second, Gate: true, faults: savepointThenKilled},
		{Number: 44, Name: "late-before-and-after", Fault: "late data before, kill, late data after", Target: "worker", Judged: []string{"I1", "I9"}, Needs: []Need{LateInput}},
		{Number: 46, Name: "sink-down", Fault: "sink down longer than retained × interval", Target: "sink", Judged: always("I11", "I12"),
			Interval: quick, Lasts: 20 * time.Second, points: atWorkers(pointCommit, "4+", "pause(DIR)"), faults: sinkDown},
		{Number: 47, Name: "leader-between-triggers", Fault: "leader killed between two triggers of one checkpoint; leader paused there", Target: "leader", Judged: always("I11", "I12", "I17"),
			Interval: quick, Gate: true, points: atCoordinators("session.trigger", 3, 12, killsOrStops), faults: leadersAtPoint},
	}
}

func others() []Scenario {
	return []Scenario{
		{Name: "no-fault", Fault: "none: what a verdict is worth", Target: "nothing", Judged: always("I12"), Gate: true, Lasts: 2 * time.Second, faults: nothing},
		{Name: "killed-commits", Fault: "kill between two files of a sink commit, again and again", Target: "worker", Judged: always("I11", "I12"),
			Interval: 250 * time.Millisecond, Lasts: 10 * time.Second, Gate: true, points: atWorkers(pointPublish, "11", "kill"), faults: killedCommits},
		{Name: "ended-objects", Fault: "none: objects of checkpoints that nobody needs when the job has ended", Target: "snapshot store", Judged: always("I12"), Lasts: 2 * time.Second, Interval: 250 * time.Millisecond, strays: true, faults: nothing},
		{Name: "contest", Fault: "none: two jobs that each need every slot are submitted at once", Target: "slots", Judged: []string{"I14"}, own: true, Gate: true, faults: contest},
		{Name: "random", Fault: "a weighted mix of faults", Target: "all", Judged: always("I12"), Place: proxies, Lasts: time.Minute, faults: mixed},
	}
}
