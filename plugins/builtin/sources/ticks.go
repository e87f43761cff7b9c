package sources

import "time"

// tickLengths are those of the ticks, the longest first.
var tickLengths = [...]time.Duration{100 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond}

// TickBefore returns the longest pause of at most d that ends at a tick. It is shorter than d by a
// fifth of it at most.
func TickBefore(d time.Duration) time.Duration { return d - pastTick(d, longestTick(d/5)) }

// TickAfter returns the shortest pause of more than d that ends at a tick, where interval is how
// often the caller wakes up. It is longer than d by a tenth of interval at most.
func TickAfter(d, interval time.Duration) time.Duration {
	tick := longestTick(interval / 10)
	return d + tick - pastTick(d, tick)
}

// longestTick returns the longest tick of at most limit, 0 for none.
func longestTick(limit time.Duration) time.Duration {
	for _, l := range tickLengths {
		if l <= limit {
			return l
		}
	}
	return 0
}

// pastTick returns how long after a tick it will be in d.
func pastTick(d, tick time.Duration) time.Duration {
	if tick == 0 {
		return 0
	}
	at := time.Now().Add(d)
	return at.Sub(at.Truncate(tick))
}
