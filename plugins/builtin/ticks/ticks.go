// Package ticks has slow sources wake up together, as timer slack does in a kernel: a thousand
// sources that wait for a second each wake a CPU ten times a second, not a thousand times.
package ticks

import "time"

// lengths are those of the ticks, the longest first.
var lengths = [...]time.Duration{100 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond}

// Before returns the longest pause of at most d that ends at a tick. It is shorter than d by a
// fifth of it at most.
func Before(d time.Duration) time.Duration { return d - pastTick(d, longest(d/5)) }

// After returns the shortest pause of more than d that ends at a tick, where interval is how
// often the caller wakes up. It is longer than d by a tenth of interval at most.
func After(d, interval time.Duration) time.Duration {
	tick := longest(interval / 10)
	return d + tick - pastTick(d, tick)
}

// longest returns the longest tick of at most limit, 0 for none.
func longest(limit time.Duration) time.Duration {
	for _, l := range lengths {
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
