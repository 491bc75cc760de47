package task

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// logTape keeps the lines of a log.
type logTape struct{ lines []string }

func (l *logTape) Write(b []byte) (int, error) {
	l.lines = append(l.lines, strings.TrimSpace(string(b)))
	return len(b), nil
}

func (l *logTape) logger() *slog.Logger {
	return slog.New(newLogHandler(hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Info, DisableTime: true})))
}

func TestUserLogsGoToTheLogOfTheProcess(t *testing.T) {
	l := &logTape{}
	log := l.logger().With("task", "words[0]#1").WithGroup("db").With("table", "t")
	log.Debug("below the level")
	log.Info("opened", "rows", 3, slog.Group("pool", "size", 2))
	log.Warn("slow")
	log.Error("gone")
	want := []string{
		`[INFO]  job: opened: db.table=t task="words[0]#1" db.rows=3 db.pool.size=2`,
		`[WARN]  job: slow: db.table=t task="words[0]#1"`,
		`[ERROR] job: gone: db.table=t task="words[0]#1"`,
	}
	for i, w := range want {
		if i >= len(l.lines) || l.lines[i] != w {
			t.Fatalf("log\n%s\nwant\n%s", strings.Join(l.lines, "\n"), strings.Join(want, "\n"))
		}
	}
	if bytes.Contains([]byte(strings.Join(l.lines, "")), []byte("below")) {
		t.Error("the level is ignored")
	}
}
