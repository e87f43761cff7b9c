package common

import "time"

// tickLengths are the possible lengths of a tick, longest first.
var tickLengths = [...]time.Duration{100 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond}

// TickBefore returns the longest pause of at most d that ends at a tick. The pause is shorter than d by at most a
// fifth.
func TickBefore(d time.Duration) time.Duration { return d - pastTick(d, longestTick(d/5)) }

// TickAfter returns the shortest pause longer than d that ends at a tick. interval is the time between wakeups of the
// caller. The pause is longer than d by at most a tenth of interval.
func TickAfter(d, interval time.Duration) time.Duration {
	tick := longestTick(interval / 10)
	return d + tick - pastTick(d, tick)
}

// longestTick returns the longest tick of at most limit; 0 if there is none.
func longestTick(limit time.Duration) time.Duration {
	for _, l := range tickLengths {
		if l <= limit {
			return l
		}
	}
	return 0
}

// pastTick returns the time between the last tick before the end of d and the end of d.
func pastTick(d, tick time.Duration) time.Duration {
	if tick == 0 {
		return 0
	}
	at := time.Now().Add(d)
	return at.Sub(at.Truncate(tick))
}
