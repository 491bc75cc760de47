package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceio/sluice/flow"
	"github.com/sluiceio/sluice/flow/flowtest"
)

func defaults(t *testing.T) *Config {
	return &Config{Events: 2_000, Users: 15, Latency: 50 * time.Microsecond, Out: t.TempDir()}
}

// event is an activity with its time.
type event struct {
	Activity
	at flow.Time
}

// standing finds what holds for a user at a time, by looking at all changes.
func standing(changes []Change, user int64, at flow.Time) (s Standing) {
	last := flow.MinTime
	for _, c := range changes {
		if c.User == user && c.At <= at && c.At > last {
			last, s = c.At, c.Standing
		}
	}
	return s
}

// expected computes the recommendations by a plain loop over all activities, sorted by time: at every full minute the profile of
// each user of the last half hour.
func expected(cfg *Config) (rows []string) {
	var events []event
	for i := range cfg.Events {
		s, _ := cfg.search(i)
		c, _ := cfg.click(i)
		events = append(events, event{s.Activity(), s.At}, event{c.Activity(), c.At})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var changes []Change
	for i := range 2 * cfg.Users {
		c, _ := cfg.change(i)
		changes = append(changes, c)
	}
	first, last := events[0].at, events[len(events)-1].at
	for end := opened.Add(-time.Hour); end <= last.Add(31*time.Minute); end = end.Add(time.Minute) {
		if end <= first {
			continue
		}
		profiles := map[int64]map[string]int64{}
		for _, e := range events {
			if e.at < end.Add(-30*time.Minute) || e.at >= end {
				continue
			}
			if profiles[e.User] == nil {
				profiles[e.User] = map[string]int64{}
			}
			profiles[e.User][e.Token] += e.Weight
		}
		for user, tokens := range profiles {
			cs := nearest(embedding(user, end, Profile{tokens}).Vec)
			ranked := ranking(append(cs, trend(end)...), standing(changes, user, end-1))
			rows = append(rows, string(rankedRow(nil, Ranked{user, end, ranked})))
		}
	}
	slices.Sort(rows)
	return rows
}

func committed(t *testing.T, dir string) (rows []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range parts {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")...)
	}
	slices.Sort(rows)
	return rows
}

func TestRecommendationsAreThoseOfAPlainLoop(t *testing.T) {
	rows := expected(defaults(t))
	short, answers := 0, map[string]bool{}
	for _, row := range rows {
		answer := row[strings.LastIndexByte(row, '|')+1:]
		answers[answer] = true
		if strings.Count(answer, ",") == kept-1 {
			short++
		}
	}
	if len(rows) < 500 || len(answers) < 50 || short == 0 || short == len(rows) {
		t.Fatalf("%d recommendations, %d different ones, %d of users that are not premium: the data shows nothing", len(rows), len(answers), short)
	}
	for _, way := range []struct{ parallelism, mode, memory string }{{"1", "streaming", "64MiB"}, {"3", "streaming", "64MiB"}, {"2", "auto", "1KiB"}} {
		cfg := defaults(t)
		flowtest.Run(t, cfg, build, flowtest.Setting("parallelism", way.parallelism), flowtest.Setting("mode", way.mode), flowtest.Setting("state.memory", way.memory))
		if got := committed(t, cfg.Out); !slices.Equal(got, rows) {
			t.Errorf("%v: %d recommendations, want %d", way, len(got), len(rows))
		}
	}
}

func TestTheOrderOfArrivalDoesNotCount(t *testing.T) {
	cfg := defaults(t)
	var searches []Search
	var clicks []Click
	for i := range int64(120) {
		s, _ := cfg.search(i)
		c, _ := cfg.click(i)
		searches, clicks = append(searches, s), append(clicks, c)
	}
	var changes []Change
	for i := range 2 * cfg.Users {
		c, _ := cfg.change(i)
		changes = append(changes, c)
	}
	cfg.Latency = time.Millisecond
	out := flowtest.Sink[Ranked]("recommendations")
	flowtest.Deterministic(t, cfg, build, out, flowtest.Setting("mode", "streaming"),
		flowtest.Source("searches", searches...), flowtest.Source("clicks", clicks...), flowtest.Source("users", changes...))
	if n := len(out.Values()); n < 100 {
		t.Errorf("%d recommendations: the data shows nothing", n)
	}
}

func TestCandidatesWaitForTheStandingOfTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := flowtest.Job(t, defaults(t), build, flowtest.Setting("mode", "streaming")) // the sources are bounded: their exchanges would be stored
		at := opened.Add(30 * time.Second)
		j.Push("searches", Search{7, "query 1", at}, at)
		j.Watermark("searches", opened.Add(2*time.Minute))
		j.Watermark("clicks", opened.Add(2*time.Minute))
		j.Advance(time.Second) // the services take their time
		if got := j.Collect[Ranked]("recommendations"); len(got) != 0 {
			t.Errorf("before the standing of the user is known: %v", got)
		}
		first := ranking(append(nearest(embedding(7, 0, Profile{map[string]int64{"query 1": 1}}).Vec), trend(opened)...), Standing{})[0]
		j.Push("users", Change{7, opened, Standing{Blocked: []int64{first}}}, opened)
		j.Watermark("users", opened.Add(2*time.Minute))
		j.Advance(time.Second)
		got := j.Collect[Ranked]("recommendations")
		if len(got) == 0 || slices.Contains(got[0].Items, first) || got[0].At != opened.Add(time.Minute) {
			t.Errorf("recommended %v, blocked %d", got, first)
		}
		j.Done()
	})
}

func TestTheJoinSurvives(t *testing.T) {
	cfg := defaults(t)
	var script []flowtest.Step[flowtest.Either[Candidates, Change]]
	for i := range 2 * cfg.Users {
		c, at := cfg.change(i)
		script = append(script, flowtest.Record(flowtest.OfB[Candidates](c), at))
	}
	for i := range int64(40) {
		at := opened.Add(time.Duration(i) * time.Minute)
		c := Candidates{User: i % 7, At: at, Items: []Candidate{{i, i}}}
		script = append(script, flowtest.Record(flowtest.OfA[Candidates, Change](c), at))
		if i%4 == 3 {
			script = append(script, flowtest.Watermark[flowtest.Either[Candidates, Change]](at-1))
		}
	}
	flowtest.SurvivesConnected(t, Candidates.Of, Change.Of, func() *asOf { return &asOf{} }, script...)

	h := flowtest.Connected(t, Candidates.Of, Change.Of, func() *asOf { return &asOf{} })
	h.Push(flowtest.OfB[Candidates](Change{7, 10, Standing{Premium: true}}), 10)
	h.Push(flowtest.OfB[Candidates](Change{7, 30, Standing{}}), 30)
	h.Push(flowtest.OfA[Candidates, Change](Candidates{User: 7}), 20)
	h.Watermark(40)
	if got := h.Out(); len(got) != 1 || !got[0].Standing.Premium {
		t.Errorf("joined %v", got)
	}
}

func TestThePlanIsDeterministic(t *testing.T) { flowtest.Deterministic(t, defaults(t), build) }

func TestAConfigurationThatMakesNoSenseIsRefused(t *testing.T) {
	cfg := defaults(t)
	cfg.Users = 0
	if err := flowtest.Try(t, cfg, build); err == nil || !strings.Contains(err.Error(), "there must be a user") {
		t.Errorf("error %v", err)
	}
}
