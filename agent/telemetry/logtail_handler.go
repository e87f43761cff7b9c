package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/conduit-agent/conduit/spec"
)

// Handler returns a handler that passes records on to next and keeps their lines. Whether next is enabled for a level
// must not depend on attributes and groups.
func (l *LogTail) Handler(next slog.Handler) slog.Handler {
	return &logTailHandler{lines: l, first: next}
}

// logTailHandler keeps lines. A line belongs to the connector in its attributes, or else to the pipeline, or else to
// the agent. Each stage of each pipeline has a handler, and most never get a line: a handler with further attributes or
// another group is therefore prepared by its first line.
type logTailHandler struct {
	lines *LogTail
	first slog.Handler // without attributes and groups

	parent  *logTailHandler // has all but the last attributes or the last group; nil: there are none
	with    []slog.Attr     // the last attributes
	inGroup string          // the last group

	ready atomic.Pointer[preparedLogHandler]
}

// preparedLogHandler has the parts of a logTailHandler that a line needs.
type preparedLogHandler struct {
	next  slog.Handler
	id    string // id of the owner, "" if only the attributes of a line name it
	attrs []slog.Attr
	group string
}

// prepared returns the parts of h that a line needs. Concurrent calls may prepare it twice.
func (h *logTailHandler) prepared() *preparedLogHandler {
	if p := h.ready.Load(); p != nil {
		return p
	}
	p := &preparedLogHandler{next: h.first}
	if h.parent != nil {
		*p = *h.parent.prepared()
		if h.inGroup != "" {
			p.next, p.group = p.next.WithGroup(h.inGroup), p.group+h.inGroup+"."
		} else {
			p.next, p.attrs = p.next.WithAttrs(h.with), slices.Clone(p.attrs)
			for _, a := range h.with {
				p.id = p.owner(p.id, a)
				a.Key = p.group + a.Key
				p.attrs = append(p.attrs, a)
			}
		}
	}
	h.ready.Store(p)
	return p
}

// Enabled implements slog.Handler.
func (h *logTailHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.first.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *logTailHandler) Handle(ctx context.Context, r slog.Record) error {
	p := h.prepared()
	id := p.id
	r.Attrs(func(a slog.Attr) bool {
		id = p.owner(id, a)
		return true
	})
	if h.lines.admit(id, r.Time) {
		h.lines.keep(id, p.line(&r))
	}
	return p.next.Handle(ctx, r)
}

// owner returns the owner of lines with the attribute a. id is the owner without it.
func (p *preparedLogHandler) owner(id string, a slog.Attr) string {
	if p.group == "" && (a.Key == "connector_id" || a.Key == "pipeline_id" && id == "") &&
		a.Value.Kind() == slog.KindString {
		return a.Value.String()
	}
	return id
}

func (p *preparedLogHandler) line(r *slog.Record) spec.LogLine {
	line := spec.LogLine{At: r.Time, Level: strings.ToLower(r.Level.String()), Message: shortened(r.Message),
		Fields: map[string]string{}}
	for _, a := range p.attrs {
		addLogField(line.Fields, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		addLogField(line.Fields, p.group, a)
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
	if len(attrs) == 0 {
		return h
	}
	return &logTailHandler{lines: h.lines, first: h.first, parent: h, with: attrs}
}

// WithGroup implements slog.Handler.
func (h *logTailHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logTailHandler{lines: h.lines, first: h.first, parent: h, inGroup: name}
}
