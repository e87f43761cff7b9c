package logtail

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
)

// Handler returns a handler that passes records on to next and keeps those of pipelines and connectors.
func (l *Lines) Handler(next slog.Handler) slog.Handler { return &handler{Handler: next, lines: l} }

// handler keeps lines. A line belongs to the connector that it is about, or else to the pipeline.
type handler struct {
	slog.Handler
	lines *Lines
	id    string // of whom the lines are, "" if only their own attributes say so
	attrs []slog.Attr
	group string
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	id := h.id
	r.Attrs(func(a slog.Attr) bool {
		id = h.owner(id, a)
		return true
	})
	if id != "" && h.lines.admit(id, r.Time) {
		h.lines.keep(id, h.line(&r))
	}
	return h.Handler.Handle(ctx, r)
}

// owner returns whose lines those with a are, when they are id's without it.
func (h *handler) owner(id string, a slog.Attr) string {
	if h.group == "" && (a.Key == "connector_id" || a.Key == "pipeline_id" && id == "") && a.Value.Kind() == slog.KindString {
		return a.Value.String()
	}
	return id
}

func (h *handler) line(r *slog.Record) rest.LogLine {
	line := rest.LogLine{At: r.Time, Level: strings.ToLower(r.Level.String()), Message: short(r.Message), Fields: map[string]string{}}
	for _, a := range h.attrs {
		addField(line.Fields, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		addField(line.Fields, h.group, a)
		return true
	})
	return line
}

func addField(fields map[string]string, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		fields[group+a.Key] = short(text(v))
		return
	}
	if a.Key != "" {
		group += a.Key + "."
	}
	for _, member := range v.Group() {
		addField(fields, group, member)
	}
}

// text is a value as it is read.
func text(v slog.Value) string {
	if v.Kind() != slog.KindAny {
		return v.String()
	}
	switch x := v.Any().(type) {
	case []byte:
		return string(x[:min(len(x), maxText+1)])
	case json.RawMessage:
		return string(x[:min(len(x), maxText+1)])
	case error:
		return x.Error()
	case json.Marshaler:
		if b, err := x.MarshalJSON(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v.Any())
}

// short is s, cut where it is too long to be kept.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
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
func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	if c.Handler = h.Handler.WithGroup(name); name != "" {
		c.group += name + "."
	}
	return &c
}
