// Package logging writes the lines of the log: for people, for systemd's journal, or as JSON.
package logging

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/texts"
)

// levelTrace is below slog's lowest named level.
const levelTrace = slog.LevelDebug - 4

// logLevels are the names of the setting log.level.
var logLevels = map[string]slog.Level{
	"trace": levelTrace,
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}

// NewHandler returns the handler for log.level and for log.format, or for the format "journal". It makes one Write per
// line. If w is a Queue, it passes lines with a record through the queue.
func NewHandler(w io.Writer, format, level string, color bool) slog.Handler {
	var enc encoder = jsonEncoder{}
	if format != "json" {
		enc = &textEncoder{color: color, journal: format == "journal"}
	}
	h := &logHandler{out: &direct{w: w}, enc: enc, level: logLevels[level]}
	if q, ok := w.(*Queue); ok {
		h.out = q
		q.render(enc)
	}
	return h
}

// encoder renders the parts of a line. All methods append to b.
type encoder interface {
	begin(b []byte, r *slog.Record) []byte
	attr(b []byte, group, key string, v slog.Value) []byte
	end(b []byte) []byte
	recordFirst() bool // the record of a line comes before its other attributes
}

// recordKey is the attribute that holds a record of a pipeline.
const recordKey = "record"

// logHandler renders a record and writes it as one line. Groups become dotted key
// prefixes. Attributes of With are rendered once.
type logHandler struct {
	out   output
	enc   encoder
	level slog.Level
	with  []byte // rendered attributes
	group string // "a.b." inside of groups a and b
}

// output writes lines. A line with a record of a pipeline is written before writeLine returns, as by a destination.
type output interface {
	writeLine(line []byte, hasRecord bool) error
}

// direct writes lines at once.
type direct struct {
	mu sync.Mutex
	w  io.Writer
}

func (d *direct) writeLine(line []byte, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.w.Write(line)
	return err
}

// maxPooledLine keeps the buffer of a huge record from staying in memory.
const maxPooledLine = 64 << 10

var linePool = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle implements slog.Handler.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	p := linePool.Get().(*[]byte)
	b, hasRecord := h.line((*p)[:0], &r)
	err := h.out.writeLine(b, hasRecord)
	if cap(b) <= maxPooledLine {
		*p = b
		linePool.Put(p)
	}
	return err
}

// line appends the line of r to b, and reports whether it has a record of a pipeline.
func (h *logHandler) line(b []byte, r *slog.Record) (line []byte, hasRecord bool) {
	r.Message = texts.Truncate(r.Message, texts.MaxFullError)
	b = h.enc.begin(b, r)
	first := h.enc.recordFirst() && h.group == ""
	r.Attrs(func(a slog.Attr) bool {
		if h.group == "" && a.Key == recordKey {
			hasRecord = true
			if first {
				b = h.appendAttr(b, "", a)
			}
		}
		return true
	})
	b = append(b, h.with...)
	r.Attrs(func(a slog.Attr) bool {
		if !first || a.Key != recordKey {
			b = h.appendAttr(b, h.group, a)
		}
		return true
	})
	return h.enc.end(b), hasRecord
}

func (h *logHandler) appendAttr(b []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range v.Group() {
			b = h.appendAttr(b, group, member)
		}
		return b
	}
	if a.Equal(slog.Attr{}) {
		return b
	}
	return h.enc.attr(b, group, a.Key, bounded(a.Key, v))
}

// bounded returns the value to log, with bounded error texts.
func bounded(key string, v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		if key == "err" || key == "error" {
			return slog.StringValue(texts.TruncateError(v.String()))
		}
	case slog.KindAny:
		_, other := v.Any().(json.Marshaler)
		if err, ok := v.Any().(error); ok && !other {
			return slog.StringValue(texts.TruncateError(err.Error()))
		}
	}
	return v
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.withAttrs(attrs) }

func (h *logHandler) withAttrs(attrs []slog.Attr) *logHandler {
	c := *h
	c.with = slices.Clone(h.with)
	for _, a := range attrs {
		c.with = h.appendAttr(c.with, h.group, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler { return h.withGroup(name) }

func (h *logHandler) withGroup(name string) *logHandler {
	if name == "" {
		return h
	}
	c := *h
	c.group += name + "."
	return &c
}

// clock renders times to the second and keeps the last one: at full speed thousands
// of lines share it.
type clock struct {
	mu   sync.Mutex
	sec  int64
	text []byte
}

func (c *clock) append(b []byte, t time.Time) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sec := t.Unix(); sec != c.sec || c.text == nil {
		c.sec, c.text = sec, t.AppendFormat(c.text[:0], "2006-01-02T15:04:05-07:00")
	}
	return append(b, c.text...)
}
