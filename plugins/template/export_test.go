//go:build !minimal

package template

import "time"

// Shorten leaves the batch of b this much time.
func (b *TimeLimit) Shorten(left time.Duration) { b.left = left }
