package notify

import (
	"log/slog"
	"time"
)

// After how long a failure that lasts is logged again, and how long that pause grows at
// most, by doubling.
const (
	firstPause = time.Minute
	maxPause   = time.Hour
)

// Throttle logs the outcome of something that is tried again and again: an error when it
// begins to fail, then at intervals that double up to an hour, and once that it works again.
// It is used by one goroutine, or under its owner's lock.
type Throttle struct {
	Fails     string // the message while it fails; the error is added as "err"
	Recovered string // the message when it works again

	next  time.Time // when to log the failure again; zero while there is none
	pause time.Duration
}

// Observe takes the outcome of an attempt.
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

// Reset has the next failure logged at once, because it is another one.
func (t *Throttle) Reset() { t.next = time.Time{} }
