package redact

import (
	"context"
	"log/slog"
)

// Handler returns a handler that passes records on to next with attributes that are texts
// or errors redacted, and messages, since what a plugin says may quote its settings.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return &handler{next, r} }

type handler struct {
	slog.Handler
	redactor *Redactor
}

// Handle passes r on, redacted.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	redacted := slog.NewRecord(r.Time, r.Level, h.redactor.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool { redacted.AddAttrs(h.attr(a)); return true })
	return h.Handler.Handle(ctx, redacted)
}

// WithAttrs returns a handler that adds attrs as they are: who adds them knows no values.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.redactor}
}

// WithGroup returns a handler that begins a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.redactor}
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.Any(a.Key, h.redactor.Error(err))
	}
	if a.Value.Kind() == slog.KindString {
		return slog.String(a.Key, h.redactor.Text(a.Value.String()))
	}
	return a
}
