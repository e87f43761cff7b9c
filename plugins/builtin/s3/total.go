package s3

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// counter counts the objects of a snapshot while the source reads them, so that its progress has a total. The count
// needs another listing, but no read waits for it.
type counter struct {
	cancel context.CancelFunc // nil before start
	done   sync.WaitGroup
}

// start counts the objects after the last key that were written before until, and adds the n objects listed up to that
// key.
func (s *Source) start(n int64, until time.Time) {
	ctx, cancel := context.WithCancel(context.Background()) // outlives the call of Read
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

// stop stops counting.
func (c *counter) stop() {
	if c.cancel != nil {
		c.cancel()
	}
	c.done.Wait()
}

// setTotal records the number of objects of the snapshot.
func (g *gauge) setTotal(n int64) {
	g.change(func(s *progress.Snapshot) { s.Total = n })
}

// each calls do with the objects below the prefixes after a key, which is below the first prefix, or "" for all. It
// retries until ctx ends if the store does not answer.
func (b *bucket) each(ctx context.Context, prefixes []string, after string, do func(object)) error {
	var again common.Backoff
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
		again = common.Backoff{}
		for _, o := range page {
			after = o.Key
			do(o)
		}
	}
	return nil
}

// within returns the key if it is below the prefix, and otherwise "", which is before all keys.
func within(key, prefix string) string {
	if !strings.HasPrefix(key, prefix) {
		return ""
	}
	return key
}
