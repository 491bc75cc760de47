package group

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/proto/controlpb"
	"github.com/sluiceio/sluice/proto/taskpb"
)

func sample(job string, process uint64, groups ...*taskpb.GroupClock) *controlpb.ProcessSample {
	return &controlpb.ProcessSample{Job: job, Process: process, Sample: &taskpb.Sample{Groups: groups}}
}

func at(group string, us int64) *taskpb.GroupClock {
	return &taskpb.GroupClock{Group: group, WatermarkUs: us}
}

func TestAProcessHearsOfTheOthersOfItsJobAlone(t *testing.T) {
	here := []*controlpb.ProcessSample{
		sample("j", 1, at("bids", 5), at("rates", 70)),
		sample("j", 2, at("bids", 20)),
		sample("quiet", 3),
	}
	all := append(here,
		sample("j", 4, at("bids", 30), at("rates", 60)),
		sample("j", 5, at("rates", math.MaxInt64)), // a member without an active split
		sample("k", 6, at("bids", 1)),
	)
	var lines []string
	for _, m := range Elsewhere(here, all) {
		line := fmt.Sprintf("%s/%d", m.Job, m.Process)
		for _, g := range m.Groups {
			line += fmt.Sprintf(" %s %d", g.Group, g.WatermarkUs)
		}
		lines = append(lines, line)
	}
	if got, want := strings.Join(lines, "; "), "j/1 bids 20 rates 60; j/2 bids 5"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
	// Alone, or with nobody else active: that is told, too, so that what was heard before does not count any longer.
	if m := Elsewhere(here[1:2], here[1:2]); len(m) != 1 || len(m[0].Groups) != 0 {
		t.Errorf("a process that is alone is told %v", m)
	}
}
