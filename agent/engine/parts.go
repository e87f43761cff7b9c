package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/record"
)

// parts decides how many records pass the processors at once. Processors may make many records from one, and all
// output for a batch is in memory at the same time. The first record of a source therefore passes alone; the size of
// later parts aims at partBytes of output.
type parts struct {
	size int          // records of the next part; owned by the goroutine that reads
	made atomic.Int64 // bytes of output of the current part
	// branch is the number of bytes per record in the last output of the processors of a destination, which work
	// later.
	branch atomic.Int64
}

const (
	partBytes  = 16 << 20
	partGrowth = 16 // maximum growth of a part over the one before
	maxPart    = 1 << 16
	tooMuch    = 4 * partBytes // counted as the output of a part that was too large
)

// next returns how many of n records pass next.
func (p *parts) next(n int) int {
	p.made.Store(0)
	return min(n, max(1, p.size))
}

// passed adjusts the size of parts to the output of a part of n records.
func (p *parts) passed(n int) {
	each := max(1, int(p.made.Load())/n, int(p.branch.Load()))
	p.size = min(max(1, partBytes/each), max(n*partGrowth, p.size), maxPart)
}

// tooMany records that the processors split the current part: its output is too large.
func (p *parts) tooMany() { p.made.Add(tooMuch) }

// processParts passes b through the processors.
func (s *sourceRun) processParts(ctx context.Context, b *record.Batch) error {
	for at := 0; at < b.Len(); {
		if at > 0 {
			if err := s.waitForWindow(ctx); err != nil {
				return err
			}
		}
		part, n := b, s.parts.next(b.Len()-at)
		if n < b.Len() {
			part = b.Slice(at, at+n)
		}
		if err := s.process(ctx, s.inFlight(part)); err != nil {
			return err
		}
		s.parts.passed(n)
		at += n
	}
	return nil
}

// branches reports whether a destination has processors.
func (r *run) branches() bool {
	return slices.ContainsFunc(r.dests, func(d *destinationRun) bool { return d.stage.Active() })
}
