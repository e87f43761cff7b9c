package notify

import (
	"log/slog"
	"time"
)

// The first interval between two log lines for a persistent failure, and the limit to which it doubles.
const (
	firstPause = time.Minute
	maxPause   = time.Hour
)

// Throttle logs the outcome of repeated attempts: an error when they begin to fail, then at intervals that double up to
// an hour, and once when they succeed again. It is used by one goroutine, or under its owner's lock.
type Throttle struct {
	Fails     string // message while attempts fail; the error is added as "err"
	Recovered string // message when attempts succeed again

	next  time.Time // when to log the failure again; zero while there is none
	pause time.Duration
}

// Observe records the outcome of an attempt.
func (t *Throttle) Observe(log *slog.Logger, err error) {
	now := time.Now()
	switch {
	case err == nil && t.next.IsZero():
	case err == nil:
		t.next = time.Time{}
		log.Info(t.Recovered)
	case t.next.IsZero():
		t.pause, t.next = firstPause, now.Add(firstPause)
		log.Error(t.Fails, "err", err)
	case !now.Before(t.next):
		t.pause = min(2*t.pause, maxPause)
		t.next = now.Add(t.pause)
		log.Error(t.Fails, "err", err)
	}
}

// Reset makes Throttle log the next failure at once, because it is a different one.
func (t *Throttle) Reset() { t.next = time.Time{} }
