package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceio/sluice/connector"
	"github.com/sluiceio/sluice/flow/element"
	"github.com/sluiceio/sluice/proto/snapshotpb"
	"github.com/sluiceio/sluice/worker/task/align"
	"github.com/sluiceio/sluice/worker/task/barrier"
	"github.com/sluiceio/sluice/worker/task/chain"
	"github.com/sluiceio/sluice/worker/task/fault"
	"github.com/sluiceio/sluice/worker/task/mail"
	"github.com/sluiceio/sluice/worker/task/mark"
	"github.com/sluiceio/sluice/worker/task/reject"
)

// TimeOrigin says where the event time of a record comes from when there is no extractor.
type TimeOrigin uint8

const (
	// FromSource keeps what the reader has given (Records.Add).
	FromSource TimeOrigin = iota
	// FromClock stamps records with the clock of the reading machine.
	FromClock
)

// Watermarks says how a source makes watermarks. At its end a bounded source promises MaxTime in any case.
type Watermarks uint8

const (
	// WatermarksAuto is WatermarksBounded with an EventTime extractor or a Generator, and WatermarksNone without.
	WatermarksAuto Watermarks = iota
	// WatermarksNone makes none: the source is idle for event time.
	WatermarksNone
	// WatermarksBounded promises the largest time of a split less OutOfOrder, at most once per batch and millisecond.
	WatermarksBounded
	// WatermarksPerRecord does so after each record.
	WatermarksPerRecord
)

// Options is how a pipeline reads a source. The zero value keeps the source's times and makes no watermarks.
type Options[T any] struct {
	// EventTime extracts the event time; nil: see Times.
	EventTime func(T) element.Time
	Times     TimeOrigin
	// Watermarks are per split and merged by the rule for channels.
	Watermarks Watermarks
	// Generator makes the generator of one split, which says what its records promise; nil: the largest time less OutOfOrder.
	// It is asked as Watermarks says: once per batch, or after each record.
	Generator func() Generator[T]
	// OutOfOrder is how far behind the largest time of its split a record may be without being late.
	OutOfOrder time.Duration
	// IdleAfter takes a split that has had no record for so long out of the minimum; 0: never. A bounded source is
	// never idle, it only has not ended yet.
	IdleAfter time.Duration
	// Group is the alignment group that the splits belong to: one that is more than MaxDrift ahead of the group waits. Empty: none.
	Group    string
	MaxDrift time.Duration
	// OnError decides about records that the source could not decode. Its retries are for polls that fail.
	OnError reject.Policy
}

// Generator makes the watermarks of one split, on the goroutine of its subtask.
type Generator[T any] interface {
	// OnRecord is told of each record, before it goes on.
	OnRecord(v T, at element.Time)
	// Watermark promises that no record of the split with a time at or below it follows those that OnRecord was told of. A
	// time below an earlier one counts for nothing; element.MinTime promises nothing.
	Watermark() element.Time
}

// Source is a connector's source, erased.
type Source interface {
	// Bounded says whether the source ends by itself.
	Bounded() bool
	// Open starts the reader of one subtask.
	Open(c Config) (chain.Head, error)
	// Enumerator starts split discovery, where an enumerator was that had said restored; nil: from the beginning.
	Enumerator(ctx context.Context, parallelism int, restored []byte) (connector.Enumerator, error)
}

// New erases a source. It opens nothing.
func New[T any](s connector.Source[T], o Options[T]) Source {
	return &source[T]{src: s, opts: o}
}

type source[T any] struct {
	src  connector.Source[T]
	opts Options[T]
}

// Config is what the head of a source needs from its surroundings.
type Config struct {
	Runtime *chain.Runtime
	Chain   *chain.Chain
	Mail    *mail.Box
	Out     []any // pushes of the consumers
	// Request asks for splits.
	Request func(Request)
	// Gate is open when the source may emit; nil: it always may. Whoever opens it wakes the mailbox.
	Gate func() bool
	// Groups are the alignment groups of the process.
	Groups *align.Groups
	// From is where the reader begins; nil: without splits.
	From *snapshotpb.SourceState
}

// Request says what a reader has: Have splits, of which Read are read to their end. It wants those beyond.
type Request struct{ Have, Read int }

// phasedSource is a connector.Source whose splits have so many phases. All but the last one are bounded: while they are
// read, a split yet to come may hold the oldest record of all.
type phasedSource interface{ Phases() int32 }

func (s *source[T]) Bounded() bool { return s.src.Bounded() }

func (s *source[T]) Enumerator(ctx context.Context, parallelism int, restored []byte) (connector.Enumerator, error) {
	return s.src.OpenEnumerator(ctx, parallelism, restored)
}

func (s *source[T]) Open(c Config) (_ chain.Head, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault.Panicked(v, c.Runtime.Task.Operator, "while the source was opened")
		}
	}()
	var out any = c.Out
	if len(c.Out) == 1 {
		out = c.Out[0]
	}
	push, err := chain.Output[T](c.Runtime, out)
	if err != nil {
		return nil, err
	}
	failed, err := reject.Raw(c.Runtime, s.opts.OnError)
	if err != nil {
		return nil, err
	}
	rd, err := s.src.OpenReader(c.Runtime.Ctx, c.Runtime.Task)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	h := &head[T]{
		rt: c.Runtime, chain: c.Chain, mail: c.Mail, request: c.Request, gate: c.Gate,
		rd: rd, opts: s.opts, push: push, bounded: s.src.Bounded(), marks: mark.New(1), phases: 1, past: element.MinTime, floor: element.MinTime, failed: failed,
	}
	if p, ok := any(s.src).(phasedSource); ok {
		h.phases = max(1, p.Phases())
	}
	switch s.opts.Watermarks {
	case WatermarksBounded:
		h.marking = true
	case WatermarksAuto:
		h.marking = s.opts.EventTime != nil || s.opts.Generator != nil
	case WatermarksPerRecord:
		h.marking, h.perRecord = true, true
	}
	if !h.marking {
		h.silence()
	}
	h.together(c.Groups)
	if c.From != nil {
		if err := h.begin(c.From); err != nil {
			return nil, errors.Join(err, h.Close(err))
		}
	}
	return h, nil
}

// limits of polling.
const (
	// AskAgain is how long a request for splits may stay unanswered: the answer may be lost with a leader.
	AskAgain = time.Second
	// AskAhead is how long after the last answer a source asks for its next split although it still reads one.
	AskAhead = time.Second
	// emptyPoll is how long a reader rests that has returned nothing although nobody interrupted it.
	emptyPoll = time.Millisecond
	// MarkEvery is the least time between two watermarks of a source.
	MarkEvery = time.Millisecond
)

// unassigned is the input of a source's merger that stands for splits that it may still get. While a bounded source
// may get more, that input has promised nothing: a split yet to come may hold the oldest record of all. An unbounded
// source is judged by the splits that it reads.
//
// A source with phases is bounded up to its last one, and what this says of bounded sources holds for it until then.
//
// So that a source with as many splits as readers does not hold the clock until its end, a reader asks for its next
// split ahead: not at once, which would give the first reader all splits, but when the others have had time to get
// theirs. The answer is a split to read later, or the end.
const unassigned = 0

// head reads the splits of one subtask.
type head[T any] struct {
	rt      *chain.Runtime
	chain   *chain.Chain
	mail    *mail.Box
	request func(Request)
	gate    func() bool // nil: open

	rd        connector.Reader[T]
	opts      Options[T]
	failed    reject.Failed[[]byte]
	push      chain.Push[T]
	bounded   bool
	marking   bool // makes watermarks
	perRecord bool

	recs connector.Records[T]
	at   int // the record in flight
	poll struct {
		ctx       context.Context
		cancel    context.CancelFunc
		emptyFrom time.Time // of the last empty poll; zero: the last one was not
	}

	before  int          // splits that were finished in the checkpoint that the attempt starts from: the reader does not know them
	have    int          // splits received
	asked   time.Time    // of the last request; zero: none is open
	told    int          // splits that the last request said were read
	noMore  bool         // no split will come
	drained bool         // the job stops: nothing more is read
	dry     bool         // every split received is finished
	phase   int32        // under way, as far as this reader knows
	phases  int32        // their number
	past    element.Time // largest time seen in splits before the last phase
	count   int64

	finished int            // splits
	ended    int            // splits below are finished for the clock, too
	given    time.Time      // of the last answer
	marks    *mark.Merger   // over unassigned and, one further, each split
	newest   []element.Time // by split: largest time seen
	gens     []Generator[T] // by split; nil: there are none
	ids      []string       // by split
	since    []time.Time    // by split: of the last record, and until there is one when it was given, by the ear; only if marking
	last     []time.Time    // by split: of the last record; zero: it has had none; only if marking
	start    time.Time      // when it began to wait for its first split, by the ear
	ear      ear
	pace     pace
	marked   time.Time // of the last watermark

	index   []int32          // by split: among those that were ever assigned to the subtask
	floor   element.Time     // that was said before the restore
	aligner *barrier.Aligner // nil: the subtask takes no part in checkpoints
	freeze  func(element.CheckpointID, time.Time) error
}
