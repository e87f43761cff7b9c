package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"github.com/conduit-agent/conduit/plugins/subprocess"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec/texts"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
)

// maxLine is the maximum length of an output line in bytes. A longer line is split, with marks at the cuts.
const maxLine = 64 << 10

// Limits of the output that is kept to explain the end of a plugin.
const (
	keptLines    = 8
	keptLineSize = 500
)

// logWriter logs the lines that a plugin writes: JSON objects with @level and @message, or plain text.
type logWriter struct {
	throttle *subprocess.Throttle
	mu       sync.Mutex
	log      *slog.Logger        // guarded by mu
	redact   func(string) string // guarded by mu; nil: nothing is secret
	buf      []byte              // guarded by mu: incomplete line
	inside   bool                // guarded by mu: buf is not the beginning of the line
	over     bool                // guarded by mu: log output without waiting for the end of a line
	kept     []string            // guarded by mu: last lines that were not plain log lines
	panicked bool                // guarded by mu: a stack trace follows
}

func newLogWriter(log *slog.Logger) *logWriter {
	return &logWriter{log: log, throttle: subprocess.New(log)}
}

// logTo sends lines to another log from now on, and redacts the lines that are kept.
func (w *logWriter) logTo(log *slog.Logger, redact func(string) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log, w.redact = log, redact
}

// Write accepts all of p.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		piece := p[:min(len(p), maxLine-len(w.buf))]
		i := bytes.IndexByte(piece, '\n')
		if i >= 0 {
			piece = piece[:i]
		}
		w.buf = append(w.buf, piece...)
		p = p[len(piece):]
		if i >= 0 {
			p = p[1:]
		}
		if i >= 0 || len(w.buf) == maxLine {
			w.emitPiece(i < 0)
		}
	}
	if w.over {
		w.finish()
	}
	return n, nil
}

// flush logs an incomplete last line. Later output is logged at once.
func (w *logWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.finish()
	w.throttle.Report()
}

// finish logs an incomplete line. The caller holds mu.
func (w *logWriter) finish() {
	w.emitPiece(false)
	w.buf = nil
}

// emitPiece logs the buffered part of a line; more reports whether another part follows. The caller holds mu.
func (w *logWriter) emitPiece(more bool) {
	line := w.buf
	if w.inside && len(line) > 0 {
		line = append([]byte(texts.CutMark), line...)
	}
	if more {
		line = append(line, texts.CutMark...)
	}
	w.emit(line)
	w.buf, w.inside = w.buf[:0], more
}

// last returns the last lines that may explain why the plugin ended.
func (w *logWriter) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.kept, "\n")
}

func (w *logWriter) emit(line []byte) {
	if line = bytes.TrimRight(line, "\r"); len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if !w.throttle.Allow(len(line)) {
		if line[0] != '{' {
			said := string(line)
			w.plainLevel(said) // it may be the plugin's last line
			w.keep(said)
		}
		return
	}
	level, msg, attrs, ok := parseLogObject(line)
	if !ok {
		msg = string(line)
		level = w.plainLevel(msg)
	}
	if !ok || level >= slog.LevelError {
		w.keep(msg)
	}
	w.log.LogAttrs(context.Background(), level, msg, attrs...)
}

func (w *logWriter) keep(msg string) {
	if w.panicked && len(w.kept) == keptLines {
		return // the beginning of a stack trace is more useful than its end
	}
	if len(w.kept) == keptLines {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
	if w.redact != nil {
		msg = w.redact(msg) // redact before cutting: half a secret would not be recognised
	}
	w.kept = append(w.kept, strings.ToValidUTF8(msg[:min(len(msg), keptLineSize)], "?"))
}

func (w *logWriter) plainLevel(line string) slog.Level {
	if !w.panicked && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		w.panicked, w.kept = true, nil
	}
	if w.panicked {
		return slog.LevelError
	}
	if name, _, ok := strings.Cut(strings.TrimPrefix(line, "["), "]"); ok && line[0] == '[' {
		if level, ok := wire.LogLevel(name); ok {
			return level
		}
	}
	return slog.LevelDebug
}

// hostKeys are the log attributes set by the host. A plugin must not pass for another component by using them.
var hostKeys = []string{"component", "pipeline_id", "connector_id", "plugin_name", slog.TimeKey, slog.LevelKey,
	slog.MessageKey}

// parseLogObject parses a log line in JSON. Values other than strings keep their form, including numbers and objects.
func parseLogObject(line []byte) (slog.Level, string, []slog.Attr, bool) {
	if line[0] != '{' {
		return 0, "", nil, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return 0, "", nil, false
	}
	level, ok := wire.LogLevel(text(fields["@level"]))
	if !ok {
		return 0, "", nil, false
	}
	msg := text(fields["@message"])
	attrs := make([]slog.Attr, 0, len(fields))
	for key, value := range fields {
		if strings.HasPrefix(key, "@") && key != "@caller" {
			continue
		}
		key = strings.TrimPrefix(key, "@")
		if slices.Contains(hostKeys, key) {
			key = "plugin." + key
		}
		if s := text(value); s != "" {
			attrs = append(attrs, slog.String(key, s))
		} else {
			attrs = append(attrs, slog.Any(key, value))
		}
	}
	sort.Slice(attrs, func(i, j int) bool { return attrs[i].Key < attrs[j].Key })
	return level, msg, attrs, true
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}
