package runner

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many refused records of a pipeline are logged at once, and how often one is after that: they are kept
// on disk, where commands list them, and the log of a small host is to last.
const (
	refusalBurst    = 100
	refusalInterval = time.Minute
)

// refusals bounds how many of the refused records of a pipeline are in the log, over all its runs.
type refusals struct {
	bucket *rate.Limiter

	mu   sync.Mutex
	left int // guarded by mu: left out since a line said so
}

func newRefusals() *refusals {
	return &refusals{bucket: rate.NewLimiter(rate.Every(refusalInterval), refusalBurst)}
}

// Handler returns a handler that leaves lines of h out when there are too many, and says in the next one how many.
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
