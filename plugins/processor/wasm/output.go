package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/conduit-agent/conduit/spec/texts"
)

const (
	maxLine      = 64 << 10 // maximum bytes in a line of output
	linesASecond = 200
	bytesASecond = 1 << 20
)

// output writes the output of guests to the log, line by line. JSON objects are logged with their level, message and
// fields, other lines as they are.
type output struct {
	log   *slog.Logger
	lines *rate.Limiter
	bytes *rate.Limiter

	mu      sync.Mutex
	dropped int    // guarded by mu
	tail    string // guarded by mu: the line with the reason of a panic, or the last line that is not JSON
}

func newOutput(log *slog.Logger) *output {
	return &output{log: log, lines: rate.NewLimiter(linesASecond, linesASecond), bytes: rate.NewLimiter(bytesASecond,
		bytesASecond)}
}

// stream returns a writer for stdout or stderr of a guest.
func (o *output) stream() io.Writer { return &lines{output: o} }

type lines struct {
	output *output
	part   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if left := maxLine - len(l.part); left >= len(line) {
			l.part = append(l.part, line...)
		} else if left >= 0 { // otherwise the mark was already appended
			l.part = append(append(l.part, line[:left]...), texts.CutMark...)
		}
		if !ended {
			return n, nil
		}
		l.output.line(l.part)
		l.part, b = l.part[:0], rest
	}
}

// last returns the last output of a guest that explains why it ended.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tail
}

func (o *output) line(b []byte) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return
	}
	level, message, attrs, ok := parseLine(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !ok && !strings.HasPrefix(o.tail, "panic:") && !strings.HasPrefix(o.tail, "fatal error:") {
		o.tail = message[:min(len(message), 500)]
	}
	o.emit(level, len(b), message, attrs)
}

// warn logs an error of the host during a call of a guest. It is rate-limited like the output of the guest.
func (o *output) warn(message string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.emit(slog.LevelWarn, len(message), message, []any{"err", err})
}

// emit logs a line of size bytes unless the rate limit is exceeded. The caller holds mu.
func (o *output) emit(level slog.Level, size int, message string, attrs []any) {
	if !o.log.Enabled(context.Background(), level) {
		return
	}
	if !o.lines.Allow() || !o.bytes.AllowN(time.Now(), size) {
		o.dropped++
		return
	}
	if o.dropped > 0 {
		o.log.Warn("lines of the processor were not logged: it logs too much", "lines", o.dropped)
		o.dropped = 0
	}
	o.log.Log(context.Background(), level, message, attrs...)
}

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"error": slog.LevelError,
	"fatal": slog.LevelError, "panic": slog.LevelError,
}

func parseLine(b []byte) (level slog.Level, message string, attrs []any, ok bool) {
	var object map[string]any
	if b[0] != '{' || json.Unmarshal(b, &object) != nil {
		return slog.LevelInfo, strings.ToValidUTF8(string(b), "\uFFFD"), nil, false
	}
	name, _ := object["level"].(string)
	level, known := levels[name]
	if !known {
		level = slog.LevelDebug
	}
	message, _ = object["message"].(string)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key != "level" && key != "message" && key != "time" {
			attrs = append(attrs, key, fmt.Sprint(object[key]))
		}
	}
	return level, message, attrs, true
}
