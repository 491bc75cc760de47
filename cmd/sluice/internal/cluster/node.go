package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/sluiceio/sluice/coordinator"
	"github.com/sluiceio/sluice/flow/codec"
	"github.com/sluiceio/sluice/internal/wire"
	"github.com/sluiceio/sluice/worker"

	"github.com/sluiceio/sluice/cmd/sluice/internal/ops"
)

// CoordinatorConfig and WorkerConfig are what the flags of a node fill in.
type (
	CoordinatorConfig = coordinator.Config
	WorkerConfig      = worker.Config
)

// DefaultCoordinator and DefaultWorker are configurations before any flag.
func DefaultCoordinator() CoordinatorConfig { return coordinator.DefaultConfig() }

// DefaultWorker is the configuration of a worker before any flag.
func DefaultWorker() WorkerConfig { return worker.DefaultConfig() }

// Logging says how a node writes its log, which goes to standard error.
type Logging struct {
	Level string // trace, debug, info, warn, error
	Form  string // text, json
}

func (l Logging) logger(w io.Writer) (hclog.Logger, error) {
	level := hclog.LevelFromString(l.Level)
	if level == hclog.NoLevel {
		return nil, ops.Usagef("--log-level trace, debug, info, warn or error", "unknown log level %q", l.Level)
	}
	if l.Form != "text" && l.Form != "json" {
		return nil, ops.Usagef("--log-format text or json", "unknown log format %q", l.Form)
	}
	return hclog.New(&hclog.LoggerOptions{Name: "sluice", Level: level, JSONFormat: l.Form == "json", Output: w}), nil
}

// Node is what both kinds of nodes need besides their configuration.
type Node struct {
	Out, Err io.Writer
	Logging  Logging
	Format   ops.Format // of what sluice dev says
}

// RunCoordinator is the life of a coordinator.
func RunCoordinator(ctx context.Context, n Node, cfg CoordinatorConfig) (err error) {
	if cfg.Log, err = n.logger(cfg.Policy); err != nil {
		return err
	}
	cfg.Fits = codec.Fits
	cfg.Listening = func(a coordinator.Addresses) {
		n.say("coordinator %s\n  API   %s\n  Raft  %s\n  HTTP  %s", a.ID, a.API, a.Raft, orNone(a.HTTP))
	}
	if err := cfg.Validate(); err != nil {
		return configFault("coordinator", err)
	}
	return nodeFault("coordinator", coordinator.Run(ctx, cfg))
}

// RunWorker is the life of a worker.
func RunWorker(ctx context.Context, n Node, cfg WorkerConfig) (err error) {
	if cfg.Log, err = n.logger(cfg.Policy); err != nil {
		return err
	}
	cfg.Listening = func(a worker.Addresses) {
		n.say("worker %s, incarnation %d\n  control  %s\n  data     %s\n  HTTP     %s", a.ID, a.Incarnation, a.Control, a.Data, orNone(a.HTTP))
	}
	if err := cfg.Validate(); err != nil {
		return configFault("worker", err)
	}
	return nodeFault("worker", worker.Run(ctx, cfg))
}

func (n Node) logger(p wire.Policy) (hclog.Logger, error) {
	if b := p.Banner(); b != "" {
		_, _ = fmt.Fprintln(n.Err, b) // nobody listens if this fails
	}
	return n.Logging.logger(n.Err)
}

func (n Node) say(format string, args ...any) {
	_, _ = fmt.Fprintf(n.Out, format+"\n", args...) // nobody listens if this fails
}

// answer writes the value in JSON, or the text.
func (n Node) answer(value any, format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + "\n"
	if n.Format == ops.JSON {
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		text = string(data) + "\n"
	}
	if _, err := io.WriteString(n.Out, text); err != nil {
		return nodeFault("write the answer", err)
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// configFault names the flags of what is missing.
func configFault(role string, err error) error {
	var hints []string
	for _, h := range [...]struct{ says, hint string }{
		{"data directory: not set", "--data-dir DIR: the node finds its identity and its data there again"},
		{"must be advertised", "--advertise, --raft-advertise and --data-advertise HOST:PORT say what others dial"},
		{"join: at least one", "--join HOST:PORT,… with the API addresses of coordinators"},
	} {
		if strings.Contains(err.Error(), h.says) {
			hints = append(hints, h.hint)
		}
	}
	return &ops.Fault{Exit: ops.ExitUsage, Code: ops.CodeUsage, Err: fmt.Errorf("%s: %w", role, err), Hints: append(hints, "sluice "+role+" --help lists the flags")}
}

func nodeFault(role string, err error) error {
	if err == nil {
		return nil
	}
	var f *ops.Fault
	if errors.As(err, &f) {
		return err
	}
	return &ops.Fault{Exit: ops.ExitOther, Code: ops.CodeNode, Err: fmt.Errorf("%s: %w", role, err)}
}

// Peer is a voter of a cluster that is recovered by hand.
type Peer = coordinator.Peer

// Recover gives the stopped coordinator of a data directory a new list of voters.
func Recover(ctx context.Context, n Node, dataDir string, peers []Peer) error {
	if len(peers) == 0 {
		return ops.Usagef("--peers ID=RAFT-ADDRESS,… with every coordinator that survived", "no peers")
	}
	if _, err := os.Stat(dataDir); err != nil {
		return &ops.Fault{Exit: ops.ExitNotFound, Code: ops.CodeLocalFile, Err: err, Where: dataDir}
	}
	if err := coordinator.Recover(ctx, dataDir, peers); err != nil {
		return nodeFault("recover", err)
	}
	return n.answer(map[string]any{"dataDir": dataDir, "voters": len(peers)},
		"%s now believes in %d voters. Recover every other survivor with the same list, then start them.", dataDir, len(peers))
}
