package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/sluiceio/sluice/proto/apipb"
	"github.com/sluiceio/sluice/proto/jobpb"
)

// EventsOptions of Events.
type EventsOptions struct {
	Job    string // empty: all
	Follow Follow
}

// Follow says what happens at the end of what is there.
type Follow int

// The ways to end.
const (
	ToTheEnd Follow = iota
	Forever         // until interrupted
)

// Events shows what happened, in order, each event once, also when the coordinator that told it is lost.
func Events(ctx context.Context, s *Session, o EventsOptions) error {
	after := uint64(0)
	return s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) error {
		stream, err := to.Jobs.Events(ctx, &apipb.EventsRequest{Job: o.Job, Follow: o.Follow == Forever, AfterIndex: after})
		if err != nil {
			return err
		}
		for {
			e, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := s.printEvent(e); err != nil {
				return err
			}
			after = max(after, e.Index)
		}
	})
}

func (s *Session) printEvent(e *jobpb.Event) error {
	if s.Format == JSON {
		return s.printJSONLine(e)
	}
	line := fmt.Sprintf("%s  %d  %-20s", clock(e.TimeUs), e.Index, e.Kind)
	if e.Job != "" {
		line += "  " + e.Job
	}
	if e.Worker != "" {
		line += "  worker " + short(e.Worker)
	}
	if e.Message != "" {
		line += "  " + e.Message
	}
	return s.write(line + "\n")
}

// LogsOptions of Logs.
type LogsOptions struct {
	Job    string
	Follow Follow
	Tail   int64 // bytes of each process to begin with; 0: all
}

// Logs shows what the task processes of a job wrote. Lines of several processes carry the process before them. When the
// connection to the coordinator breaks while following, it goes on at another one and says that lines may be missing.
func Logs(ctx context.Context, s *Session, o LogsOptions) error {
	tail := o.Tail
	begun := false
	return s.Client.DoStream(ctx, func(ctx context.Context, to Coordinator) error {
		if begun {
			s.remark("the coordinator was lost; going on at another one, lines in between may be missing")
			tail = 1 // only what comes from now on
		}
		stream, err := to.Jobs.Logs(ctx, &apipb.LogsRequest{Job: o.Job, Follow: o.Follow == Forever, TailBytes: tail})
		if err != nil {
			return err
		}
		lines := &lineSplitter{session: s, partial: map[string][]byte{}}
		for {
			l, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return lines.flush()
			}
			if err != nil {
				return errors.Join(err, lines.flush())
			}
			begun = true
			if err := lines.add(l); err != nil {
				return err
			}
		}
	})
}

// lineSplitter makes whole lines of the pieces that processes write, each process for itself.
type lineSplitter struct {
	session *Session
	partial map[string][]byte // by process: a line that has not ended
}

// maxPartial bounds a line that never ends, in bytes.
const maxPartial = 1 << 20

func (l *lineSplitter) add(piece *apipb.LogLine) error {
	if l.session.Format == JSON {
		return l.session.printJSONLine(piece)
	}
	from := fmt.Sprintf("%s/%d", short(piece.Worker), piece.Process)
	data := append(l.partial[from], piece.Data...)
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 && len(data) < maxPartial {
			break
		}
		if i < 0 {
			i = len(data) - 1
		}
		if err := l.print(from, data[:i+1]); err != nil {
			return err
		}
		data = data[i+1:]
	}
	l.partial[from] = bytes.Clone(data)
	return nil
}

func (l *lineSplitter) print(from string, line []byte) error {
	return l.session.write(from + "  " + string(bytes.TrimRight(line, "\r\n")) + "\n")
}

func (l *lineSplitter) flush() error {
	for _, from := range slices.Sorted(maps.Keys(l.partial)) {
		if len(l.partial[from]) == 0 {
			continue
		}
		if err := l.print(from, l.partial[from]); err != nil {
			return err
		}
	}
	return nil
}
