package s3

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/backoff"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// counter counts the objects of a snapshot while they are read, so that its progress has a total. That takes
// another listing of them, but no read waits for it.
type counter struct {
	cancel context.CancelFunc // nil before start
	done   sync.WaitGroup
}

// start counts what is listed behind the last key and written before until, in addition to the n that were listed up to it.
func (s *Source) start(n int64, until time.Time) {
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the call of Read
	s.counter.cancel = cancel
	rest, after := s.rest, s.after
	s.counter.done.Go(func() {
		defer cancel()
		err := sdk.Contain(func() error {
			return s.bucket.each(ctx, rest, after, func(o object) {
				if o.Modified.Before(until) {
					n++
				}
			})
		})
		if err != nil {
			s.log.Debug("cannot count the objects of the snapshot: its progress has no total", "err", err)
			return
		}
		s.setTotal(n)
	})
}

// stop ends counting.
func (c *counter) stop() {
	if c.cancel != nil {
		c.cancel()
	}
	c.done.Wait()
}

// setTotal notes how many objects the snapshot is of.
func (g *gauge) setTotal(n int64) {
	g.change(func(s *progress.Snapshot) { s.Total = n })
}

// each calls do with the objects below the prefixes that come behind a key, which is below the first of them, or ""
// for all. It waits for a store that does not answer until ctx ends.
func (b *bucket) each(ctx context.Context, prefixes []string, after string, do func(object)) error {
	var again backoff.Backoff
	for len(prefixes) > 0 {
		page, err := b.page(ctx, prefixes[0], within(after, prefixes[0]))
		switch {
		case err != nil && (ctx.Err() != nil || !isPassing(err)):
			return err
		case err != nil:
			if err := again.Wait(ctx); err != nil {
				return err
			}
			continue
		case len(page) == 0:
			prefixes = prefixes[1:]
		}
		again = backoff.Backoff{}
		for _, o := range page {
			after = o.Key
			do(o)
		}
	}
	return nil
}

// within returns a key where it is below a prefix, or else "", which is before all.
func within(key, prefix string) string {
	if !strings.HasPrefix(key, prefix) {
		return ""
	}
	return key
}
