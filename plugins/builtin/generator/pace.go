package generator

import (
	"context"
	"time"
)

const (
	// A reader that was late catches up for this much time, so that pauses of the
	// machine do not lower the rate; what is older is forgotten, so that a long
	// pause is not followed by a burst.
	catchUp = 100 * time.Millisecond
	// Above a thousand records per second, several are made each time rather than
	// waking up for every single one.
	shortestPause = time.Millisecond
	// A wait is broken up, because the next record may be due further away than a
	// duration can say.
	longestPause = time.Hour
	// Who makes a record now and then makes it at a tick of the clock, like all others of
	// the kind: a thousand of them then wake the processor a hundred times a second, not a
	// thousand times.
	tick       = 10 * time.Millisecond
	nowAndThen = 10 * tick
)

// pacer says when records are due: one every Interval, and while Sleep is not zero
// only in the first Generate of every Generate+Sleep.
type pacer struct {
	Interval float64 // nanoseconds between records, 0 for no limit
	Generate time.Duration
	Sleep    time.Duration
	Start    time.Time

	next  float64     // when the next record is due, in nanoseconds after Start
	timer *time.Timer // of the last wait
}

// wait waits until a record is due and returns how many are, at most limit.
func (p *pacer) wait(ctx context.Context, limit int) (int, error) {
	for {
		now := time.Since(p.Start)
		pause := p.asleep(now)
		if pause > 0 {
			p.next = max(p.next, float64(now+pause))
		} else if n := p.due(float64(now), limit); n > 0 {
			return n, nil
		} else {
			pause = p.untilDue(float64(now))
		}
		if err := p.sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

// took counts n records as made.
func (p *pacer) took(n int) { p.next += float64(n) * p.Interval }

// asleep returns how much is left of the sleep between two bursts.
func (p *pacer) asleep(now time.Duration) time.Duration {
	if p.Sleep <= 0 {
		return 0
	}
	cycle := p.Generate + p.Sleep
	if at := now % cycle; at >= p.Generate {
		return cycle - at
	}
	return 0
}

func (p *pacer) due(now float64, limit int) int {
	if p.Interval == 0 {
		return limit
	}
	p.next = max(p.next, now-float64(catchUp))
	if now < p.next {
		return 0
	}
	return int(min(1+(now-p.next)/p.Interval, float64(limit)))
}

func (p *pacer) untilDue(now float64) time.Duration {
	pause := time.Duration(min(p.next-now, float64(longestPause))) + 1 // rounded up
	if p.Interval < float64(shortestPause) {
		pause = max(pause, shortestPause)
	}
	if p.Interval >= float64(nowAndThen) {
		at := time.Now().Add(pause)
		pause += at.Truncate(tick).Add(tick).Sub(at)
	}
	return pause
}

func (p *pacer) sleep(ctx context.Context, d time.Duration) error {
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-ctx.Done():
		p.timer.Stop()
		return ctx.Err()
	case <-p.timer.C:
		return nil
	}
}
