package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of the log lines about dead letters of a pipeline: a burst, and then one line per interval. The dead letters
// are kept on disk, where commands list them, and the log must not fill a small host.
const (
	deadLetterBurst    = 100
	deadLetterInterval = time.Minute
)

// deadLetterLog bounds the log lines about dead letters of a pipeline, over all its runs.
type deadLetterLog struct {
	bucket *rate.Limiter

	mu   sync.Mutex
	left int // guarded by mu: number of lines omitted since the last reported number
}

func newDeadLetterLog() *deadLetterLog {
	return &deadLetterLog{bucket: rate.NewLimiter(rate.Every(deadLetterInterval), deadLetterBurst)}
}

// Handler returns a handler that omits excess lines of h, and adds their number to the next line.
func (r *deadLetterLog) Handler(h slog.Handler) slog.Handler { return deadLetterLogHandler{h, r} }

type deadLetterLogHandler struct {
	slog.Handler
	*deadLetterLog
}

// Handle implements slog.Handler.
func (h deadLetterLogHandler) Handle(ctx context.Context, line slog.Record) error {
	if !h.bucket.AllowN(line.Time, 1) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.left++
		return nil
	}
	h.mu.Lock()
	left := h.left
	h.left = 0
	h.mu.Unlock()
	if left > 0 {
		line = line.Clone()
		line.AddAttrs(slog.Int("left_out", left))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h deadLetterLogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return deadLetterLogHandler{h.Handler.WithAttrs(attrs), h.deadLetterLog}
}

// WithGroup implements slog.Handler.
func (h deadLetterLogHandler) WithGroup(name string) slog.Handler {
	return deadLetterLogHandler{h.Handler.WithGroup(name), h.deadLetterLog}
}
