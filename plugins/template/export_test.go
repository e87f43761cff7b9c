package template

import "time"

// Shorten sets the remaining time of the batch of b.
func (b *TimeLimit) Shorten(left time.Duration) { b.left = left }
