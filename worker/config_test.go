package worker

import (
	"strings"
	"testing"
)

func TestConfigurationReportsEveryFaultAtOnce(t *testing.T) {
	c := DefaultConfig()
	c.Listen, c.DataListen, c.HTTPListen = "0.0.0.0:1", "nonsense", "x"
	c.Slots, c.MaxBuilds, c.StopGrace, c.Version, c.Log = 0, 0, 0, "", nil
	c.LostAfter = c.Heartbeat
	err := c.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, want := range []string{
		"data directory: not set", "control listen address", "must be advertised", `"nonsense"`, "http listen", "join:", "slots 0", "builds at a time 0",
		"stop grace", "loss timeout", "version: not set", "log: not set",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	c = DefaultConfig()
	c.DataDir, c.Join = "d", []string{"127.0.0.1:7420"}
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	c.Memory = 1 << 20
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "for 4 slots") {
		t.Errorf("too little memory: %v", err)
	}
}

func TestAWorkerHasSettingsOfItsOwnOnlyWhereItDecides(t *testing.T) {
	c := DefaultConfig()
	c.DataDir, c.Join = "d", []string{"127.0.0.1:7420"}
	for want, settings := range map[string]map[string]string{
		"":                             {"network.memory": "20%", "buffer.timeout": "5ms", "state.memory": "10%"},
		"did you mean network.memory?": {"network.memori": "20%"},
		`"soon"`:                       {"buffer.timeout": "soon"},
		"the job decides it":           {"parallelism": "3"},
		"together exceed":              {"network.memory": "90%"},
	} {
		c.Settings = settings
		if err := c.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want %q", settings, err, want)
		}
	}
}
