package history

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAHistoryReadsBackAsItWasRecorded(t *testing.T) {
	now := time.Unix(0, 0)
	var buf bytes.Buffer
	r := New(&buf, func() time.Time { now = now.Add(time.Millisecond); return now })
	a := r.Invoke("c1", "submit", "r1")
	b := r.Invoke("c2", "submit", "r2")
	r.Fault("kill", "coordinator-1")
	b.Unknown(errors.New("connection reset"))
	a.OK("job-1")
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	ops, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, op := range ops {
		got = append(got, op.Client+" "+string(op.Kind)+" "+string(op.Value)+op.Error)
	}
	want := `c1 invoke "r1";c2 invoke "r2";nemesis fault "coordinator-1";c2 unknown connection reset;c1 ok "job-1"`
	if s := strings.Join(got, ";"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if ops[4].Time <= ops[0].Time {
		t.Error("time does not rise")
	}
}

func TestAMalformedHistoryIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"completion without invocation": `{"index":1,"kind":"ok","call":1}`,
		"two completions":               `{"index":1,"kind":"invoke","call":1}` + "\n" + `{"index":2,"kind":"ok","call":1}` + "\n" + `{"index":3,"kind":"fail","call":1}`,
		"two invocations":               `{"index":1,"kind":"invoke","call":1}` + "\n" + `{"index":2,"kind":"invoke","call":1}`,
		"gap":                           `{"index":2,"kind":"note"}`,
		"unknown kind":                  `{"index":1,"kind":"perhaps"}`,
		"not JSON":                      `{`,
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestALostLineIsReported(t *testing.T) {
	r := New(broken{}, time.Now)
	r.Fault("kill", "x")
	if r.Err() == nil {
		t.Fatal("a history that could not be written looks complete")
	}
}
