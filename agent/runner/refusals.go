package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of the log lines about refused records of a pipeline: a burst, and then one line per interval. The records
// are kept on disk, where commands list them, and the log must not fill a small host.
const (
	refusalBurst    = 100
	refusalInterval = time.Minute
)

// refusals bounds the log lines about refused records of a pipeline, over all its runs.
type refusals struct {
	bucket *rate.Limiter

	mu   sync.Mutex
	left int // guarded by mu: number of lines omitted since the last reported number
}

func newRefusals() *refusals {
	return &refusals{bucket: rate.NewLimiter(rate.Every(refusalInterval), refusalBurst)}
}

// Handler returns a handler that omits excess lines of h, and adds their number to the next line.
func (r *refusals) Handler(h slog.Handler) slog.Handler { return refusalHandler{h, r} }

type refusalHandler struct {
	slog.Handler
	*refusals
}

// Handle implements slog.Handler.
func (h refusalHandler) Handle(ctx context.Context, line slog.Record) error {
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
func (h refusalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return refusalHandler{h.Handler.WithAttrs(attrs), h.refusals}
}

// WithGroup implements slog.Handler.
func (h refusalHandler) WithGroup(name string) slog.Handler {
	return refusalHandler{h.Handler.WithGroup(name), h.refusals}
}
