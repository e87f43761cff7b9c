package agent

import (
	"context"
	"time"
)

// Reads are reads of files under way.
type Reads struct{ reads }

// Within returns what read returns, unless that takes too long.
func (r *Reads) Within(ctx context.Context, patience time.Duration, name string, read func() (string, error)) (string, error) {
	return within(ctx, &r.reads, patience, name, read)
}

// Cover covers secrets in text, which are given as pairs of what was declared and the value.
func Cover(text string, pairs ...string) string {
	var s secrets
	for i := 0; i < len(pairs); i += 2 {
		s.add(pairs[i], pairs[i+1])
	}
	return s.cover(text)
}
