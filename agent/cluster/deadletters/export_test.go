package deadletters

import (
	"context"
	"time"
)

// Hasten removes the pause before another attempt.
func Hasten() { retryPause = time.Millisecond }

// MaxPacked is the maximum number of bytes in one write.
const MaxPacked = maxPacked

// HostIDs is the offset of the ids on the disk of an agent.
const HostIDs = hostIDs

// Tidy drops old dead letters, as an agent does that has been up for long enough.
func (s *Store) Tidy(ctx context.Context) {
	s.bounds.begun = s.bounds.begun.Add(-2 * noAgeFor)
	s.bounds.tidy(ctx)
}
