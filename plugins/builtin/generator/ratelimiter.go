package generator

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

const (
	// A late reader catches up for this duration, so that short pauses of the machine do not lower the rate. Older
	// records are dropped, so that no burst follows a long pause.
	catchUp = 100 * time.Millisecond
	// Above 1000 records per second, several records are generated per wakeup.
	shortestPause = time.Millisecond
	// Long waits are split, because the next record may be due later than a Duration can express.
	longestPause = time.Hour
)

// rateLimiter determines when records are due: one every Interval. If Sleep is not zero, records are due only in the
// first Generate of every Generate+Sleep.
type rateLimiter struct {
	Interval float64 // nanoseconds between records; 0: no limit
	Generate time.Duration
	Sleep    time.Duration
	Start    time.Time

	next  float64     // due time of the next record, in nanoseconds after Start
	timer *time.Timer // timer of the last wait
}

// wait waits until a record is due and returns the number of due records, at most limit.
func (l *rateLimiter) wait(ctx context.Context, limit int) (int, error) {
	for {
		now := time.Since(l.Start)
		pause := l.asleep(now)
		if pause > 0 {
			l.next = max(l.next, float64(now+pause))
		} else if n := l.due(float64(now), limit); n > 0 {
			return n, nil
		} else {
			pause = l.untilDue(float64(now))
		}
		if err := l.sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

// took counts n records as generated.
func (l *rateLimiter) took(n int) { l.next += float64(n) * l.Interval }

// asleep returns the rest of the pause between two bursts; 0 during a burst.
func (l *rateLimiter) asleep(now time.Duration) time.Duration {
	if l.Sleep <= 0 {
		return 0
	}
	cycle := l.Generate + l.Sleep
	if at := now % cycle; at >= l.Generate {
		return cycle - at
	}
	return 0
}

func (l *rateLimiter) due(now float64, limit int) int {
	if l.Interval == 0 {
		return limit
	}
	l.next = max(l.next, now-float64(catchUp))
	if now < l.next {
		return 0
	}
	return int(min(1+(now-l.next)/l.Interval, float64(limit)))
}

func (l *rateLimiter) untilDue(now float64) time.Duration {
	pause := time.Duration(min(l.next-now, float64(longestPause))) + 1 // rounded up
	if l.Interval < float64(shortestPause) {
		pause = max(pause, shortestPause)
	}
	return common.TickAfter(pause, time.Duration(min(l.Interval, float64(longestPause))))
}

func (l *rateLimiter) sleep(ctx context.Context, d time.Duration) error {
	if l.timer == nil {
		l.timer = time.NewTimer(d)
	} else {
		l.timer.Reset(d)
	}
	select {
	case <-ctx.Done():
		l.timer.Stop()
		return ctx.Err()
	case <-l.timer.C:
		return nil
	}
}
