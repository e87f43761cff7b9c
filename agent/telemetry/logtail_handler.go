package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// Handler returns a handler that passes records on to next and keeps their lines.
func (l *LogTail) Handler(next slog.Handler) slog.Handler {
	return &logTailHandler{Handler: next, lines: l}
}

// logTailHandler keeps lines. A line belongs to the connector in its attributes, or else to the pipeline, or else to
// the agent.
type logTailHandler struct {
	slog.Handler
	lines *LogTail
	id    string // id of the owner, "" if only the attributes of a line name it
	attrs []slog.Attr
	group string
}

// Handle implements slog.Handler.
func (h *logTailHandler) Handle(ctx context.Context, r slog.Record) error {
	id := h.id
	r.Attrs(func(a slog.Attr) bool {
		id = h.owner(id, a)
		return true
	})
	if h.lines.admit(id, r.Time) {
		h.lines.keep(id, h.line(&r))
	}
	return h.Handler.Handle(ctx, r)
}

// owner returns the owner of lines with the attribute a. id is the owner without it.
func (h *logTailHandler) owner(id string, a slog.Attr) string {
	if h.group == "" && (a.Key == "connector_id" || a.Key == "pipeline_id" && id == "") &&
		a.Value.Kind() == slog.KindString {
		return a.Value.String()
	}
	return id
}

func (h *logTailHandler) line(r *slog.Record) spec.LogLine {
	line := spec.LogLine{At: r.Time, Level: strings.ToLower(r.Level.String()), Message: shortened(r.Message),
		Fields: map[string]string{}}
	for _, a := range h.attrs {
		addLogField(line.Fields, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		addLogField(line.Fields, h.group, a)
		return true
	})
	return line
}

func addLogField(fields map[string]string, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		fields[group+a.Key] = shortened(logText(v))
		return
	}
	if a.Key != "" {
		group += a.Key + "."
	}
	for _, member := range v.Group() {
		addLogField(fields, group, member)
	}
}

// logText returns the text of a value.
func logText(v slog.Value) string {
	if v.Kind() != slog.KindAny {
		return v.String()
	}
	switch x := v.Any().(type) {
	case []byte:
		return string(x[:min(len(x), maxLogText+1)])
	case json.RawMessage:
		return string(x[:min(len(x), maxLogText+1)])
	case error:
		return x.Error()
	case json.Marshaler:
		if b, err := x.MarshalJSON(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v.Any())
}

// shortened returns s, cut to the maximum length of a kept text.
func shortened(s string) string {
	if len(s) <= maxLogText {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogText], "") + "…"
}

// WithAttrs implements slog.Handler.
func (h *logTailHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.Handler, c.attrs = h.Handler.WithAttrs(attrs), slices.Clone(h.attrs)
	for _, a := range attrs {
		c.id = h.owner(c.id, a)
		a.Key = h.group + a.Key
		c.attrs = append(c.attrs, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (h *logTailHandler) WithGroup(name string) slog.Handler {
	c := *h
	if c.Handler = h.Handler.WithGroup(name); name != "" {
		c.group += name + "."
	}
	return &c
}
