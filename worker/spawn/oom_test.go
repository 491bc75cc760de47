package spawn

import (
	"strings"
	"testing"
)

func TestCountersOfKillsAreReadInBothVersions(t *testing.T) {
	got := oomFiles([]byte("12:memory:/docker/abc\n3:cpu,cpuacct:/x\n0::/system.slice/sluice.service\nnonsense\n"))
	want := []string{"/sys/fs/cgroup/memory/docker/abc/memory.oom_control", "/sys/fs/cgroup/system.slice/sluice.service/memory.events"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("files: %v", got)
	}
	for data, want := range map[string]int64{
		"low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n": 3,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n":              12,
		"oom_kill many\n": 0,
		"":                0,
	} {
		if n := oomKills([]byte(data)); n != want {
			t.Errorf("%q: %d, want %d", data, n, want)
		}
	}
}
