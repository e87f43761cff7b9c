package reconcile

import (
	"log/slog"
	"time"
)

// How long after it began a trouble that lasts is logged again, and how long that grows at
// most, by doubling.
const (
	troublePause    = time.Minute
	troubleMaxPause = time.Hour
)

// trouble logs what fails each time it is tried: when that begins, then less and less
// often, and once when it is over.
type trouble struct {
	fails, over string    // what to say
	next        time.Time // when to say again that it fails; zero while it does not
	pause       time.Duration
}

// tried takes note of how an attempt went.
func (t *trouble) tried(log *slog.Logger, err error) {
	now := time.Now()
	switch {
	case err == nil && t.next.IsZero():
	case err == nil:
		t.next = time.Time{}
		log.Info(t.over)
	case t.next.IsZero():
		t.pause, t.next = troublePause, now.Add(troublePause)
		log.Error(t.fails, "err", err)
	case !now.Before(t.next):
		t.pause = min(2*t.pause, troubleMaxPause)
		t.next = now.Add(t.pause)
		log.Error(t.fails, "err", err)
	}
}
