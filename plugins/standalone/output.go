package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"github.com/conduit-agent/conduit/plugins/subprocess"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec/sorting"
	"github.com/conduit-agent/conduit/spec/texts"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// maxLine bounds a line of output. A longer one comes in pieces, with marks where it was cut.
const maxLine = 64 << 10

// Bounds of what is kept of a plugin's output to explain its end.
const (
	keptLines    = 8
	keptLineSize = 500
)

// logWriter logs lines that a plugin writes. Plugins write JSON objects with @level
// and @message or plain text.
type logWriter struct {
	throttle *subprocess.Throttle
	mu       sync.Mutex
	log      *slog.Logger        // guarded by mu
	redact   func(string) string // guarded by mu; nil: nothing is secret
	buf      []byte              // guarded by mu: a line not finished
	inside   bool                // guarded by mu: buf does not begin the line
	over     bool                // guarded by mu: what comes now is not waited for
	kept     []string            // guarded by mu: last lines that were no plain log lines
	panicked bool                // guarded by mu: a stack trace follows
}

func newLogWriter(log *slog.Logger) *logWriter {
	return &logWriter{log: log, throttle: subprocess.New(log)}
}

// logTo has lines logged to another log from now on, and those that are kept redacted.
func (w *logWriter) logTo(log *slog.Logger, redact func(string) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log, w.redact = log, redact
}

// Write takes everything.
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

// flush logs a last line that has no end. What is written after it is logged at once.
func (w *logWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.finish()
	w.throttle.Report()
}

// finish logs a line that has no end. The caller holds mu.
func (w *logWriter) finish() {
	w.emitPiece(false)
	w.buf = nil
}

// emitPiece logs the buffered part of a line; more says that another piece follows. The caller holds mu.
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
			w.plainLevel(said) // it may be the last that the plugin says
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
		return // the head of a stack trace says more than its end
	}
	if len(w.kept) == keptLines {
		w.kept = slices.Delete(w.kept, 0, 1)
	}
	if w.redact != nil {
		msg = w.redact(msg) // first: of a value that is cut in two neither part is recognised
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

// hostKeys are what the host says of a log line. A plugin that says the same must not
// pass for another component.
var hostKeys = []string{"component", "pipeline_id", "connector_id", "plugin_name", slog.TimeKey, slog.LevelKey, slog.MessageKey}

// parseLogObject reads a log line in JSON. Values that are no text stay as they are,
// so that numbers and objects in them keep their form.
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
	sorting.By(attrs, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
	return level, msg, attrs, true
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}
