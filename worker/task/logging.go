package task

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logHandler gives user code and connectors a slog.Logger that writes to the log of the process.
type logHandler struct {
	log    hclog.Logger
	prefix string // of keys, from WithGroup
}

func newLogHandler(l hclog.Logger) slog.Handler { return &logHandler{log: l.Named("job")} }

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool {
	switch {
	case l >= slog.LevelError:
		return h.log.IsError()
	case l >= slog.LevelWarn:
		return h.log.IsWarn()
	case l >= slog.LevelInfo:
		return h.log.IsInfo()
	}
	return h.log.IsDebug()
}

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	args := make([]any, 0, 2*r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		args = h.append(args, h.prefix, a)
		return true
	})
	h.log.Log(levelOf(r.Level), r.Message, args...)
	return nil
}

func levelOf(l slog.Level) hclog.Level {
	switch {
	case l >= slog.LevelError:
		return hclog.Error
	case l >= slog.LevelWarn:
		return hclog.Warn
	case l >= slog.LevelInfo:
		return hclog.Info
	}
	return hclog.Debug
}

// append flattens groups into dotted keys.
func (h *logHandler) append(args []any, prefix string, a slog.Attr) []any {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		return append(args, prefix+a.Key, v.Any())
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, m := range v.Group() {
		args = h.append(args, prefix, m)
	}
	return args
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	var args []any
	for _, a := range as {
		args = h.append(args, h.prefix, a)
	}
	return &logHandler{log: h.log.With(args...), prefix: h.prefix}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{log: h.log, prefix: h.prefix + name + "."}
}
