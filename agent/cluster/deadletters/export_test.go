package deadletters

import (
	"context"
	"time"
)

// Hasten has what failed be tried again at once.
func Hasten() { retryPause = time.Millisecond }

// MaxPacked is the most bytes that are written at once.
const MaxPacked = maxPacked

// HostIDs is what ids on the disk of an agent begin behind.
const HostIDs = hostIDs

// Tidy drops what is too old, as an agent does that has run for long enough.
func (s *Share) Tidy(ctx context.Context) {
	s.bounds.begun = s.bounds.begun.Add(-2 * noAgeFor)
	s.bounds.tidy(ctx)
}
