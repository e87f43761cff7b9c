package redact

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a handler that passes records on to next. It redacts messages, since a message of a plugin may quote
// settings, and attributes that are texts or errors.
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

// WithAttrs returns a handler that adds attrs unchanged: the code that adds them knows no secret values.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.redactor}
}

// WithGroup returns a handler that begins a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.redactor}
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.redactor.Text(v.String()))
	case slog.KindGroup:
		var all []slog.Attr
		for _, one := range v.Group() {
			all = append(all, h.attr(one))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(all...)}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.Any(a.Key, h.redactor.Error(err))
		}
		return slog.Any(a.Key, h.object(v.Any()))
	}
	return a
}

// object returns v with secrets redacted in its maps and lists, which may come from a plugin. A value with a text
// form, such as a time or a record, is data and stays unchanged.
func (h *handler) object(v any) any {
	if _, ok := v.(encoding.TextMarshaler); ok || v == nil {
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return h.redactor.Text(fmt.Sprint(v))
	}
	var object any
	if len(h.redactor.in(string(text))) == 0 && !bytes.ContainsRune(text, '\\') ||
		json.Unmarshal(text, &object) != nil {
		return v
	}
	return h.texts(object)
}

// texts redacts all texts in a decoded JSON value.
func (h *handler) texts(v any) any {
	switch v := v.(type) {
	case string:
		return h.redactor.Text(v)
	case []any:
		for i := range v {
			v[i] = h.texts(v[i])
		}
	case map[string]any:
		redacted := make(map[string]any, len(v))
		for key, value := range v {
			redacted[h.redactor.Text(key)] = h.texts(value)
		}
		return redacted
	}
	return v
}
