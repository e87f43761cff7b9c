package runner

import (
	"context"
	"log/slog"
	"strings"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// reportHandler records the errors that a connector logs, and its warnings with an error: a connector that retries
// reports its failures in this way.
type reportHandler struct {
	slog.Handler
	reports *measure.Reports
}

// Enabled reports whether the line is recorded or logged.
func (h reportHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle records the line, and passes it to the next handler if its level is enabled.
func (h reportHandler) Handle(ctx context.Context, line slog.Record) error {
	if line.Level >= slog.LevelWarn {
		h.note(&line)
	}
	if !h.Handler.Enabled(ctx, line.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, line)
}

func (h reportHandler) note(line *slog.Record) {
	text, wrong := line.Message, line.Level >= slog.LevelError
	line.Attrs(func(a slog.Attr) bool {
		if a.Key != "err" && a.Key != "error" {
			return true
		}
		wrong = true
		text += ": " + a.Value.Resolve().String()
		return false
	})
	if wrong {
		h.reports.Note(strings.TrimPrefix(text, ": "), line.Time)
	}
}

// WithAttrs implements slog.Handler.
func (h reportHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return reportHandler{h.Handler.WithAttrs(attrs), h.reports}
}

// WithGroup implements slog.Handler.
func (h reportHandler) WithGroup(name string) slog.Handler {
	return reportHandler{h.Handler.WithGroup(name), h.reports}
}

// reportsOf returns the Reports that record the errors that a connector logs.
func reportsOf(stats *measure.Pipeline, typ spec.ConnectorType, id string) *measure.Reports {
	switch {
	case strings.HasSuffix(id, ":"+spec.QueueID):
		return &stats.DeadLetters.Reports
	case typ == spec.TypeSource:
		return &stats.Source(id).Reports
	}
	return &stats.Destination(id).Reports
}
