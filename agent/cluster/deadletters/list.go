package deadletters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/spec"
)

// Offsets of ids. The ids of an instance follow those of the previous instance, and the ids on the disk of this agent
// follow all ids of the cluster. Browsers represent whole numbers exactly up to 1 << 53.
const (
	instanceIDs = 1 << 40
	hostIDs     = 1 << 47
)

// firstID returns the smallest id of a claim.
func firstID(claim string) int64 {
	_, number := protocol.InstanceOf(claim)
	return int64(number-1)*instanceIDs + 1
}

// claimOf returns the claim of a dead letter. For one on the disk of this agent, local is true and own is its id there.
func (s *Store) claimOf(pipeline string, id int64) (claim string, own int64, local bool) {
	all := s.claims(pipeline)
	switch {
	case len(all) == 0:
		return "", id, true
	case id > hostIDs:
		return "", id - hostIDs, true
	}
	return protocol.InstanceID(pipeline, int(id/instanceIDs)+1), id, false
}

const (
	scanTime   = 50 * time.Millisecond // for a page, without the time to read one segment
	askTimeout = 10 * time.Second      // for a request
	copies     = 4                     // number of copies of a record that is shown or examined
)

// unavailable returns the error of a request that could not use the store.
func unavailable(pipeline string, err error) error {
	return fmt.Errorf("cannot use the dead letters of pipeline %q in the cluster: %w", pipeline, err)
}

// List implements api.DeadLetterStore. Dead letters on the disk of this agent come first, then those of the
// cluster.
func (s *Store) List(
	ctx context.Context, pipeline string, f spec.DeadLetterFilter, before int64, limit int,
) (spec.DeadLetterPage, error) {
	claims := s.claims(pipeline)
	if len(claims) == 0 {
		return s.needs.Local.List(ctx, pipeline, f, before, limit)
	}
	limit = min(limit, deadletter.MaxPage)
	page, err := s.listHost(ctx, pipeline, f, before, limit)
	if err != nil || page.Next > 0 {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := deadletter.ReserveFor(ctx, s.needs.Local.Memory, copies*segmentBytes); err != nil {
		return page, err
	}
	scan := scan{queues: &s.queues, filter: f, before: before, limit: limit, until: time.Now().Add(scanTime),
		page: &page}
	for _, claim := range claims {
		if err := scan.queue(ctx, claim); err != nil {
			return page, unavailable(pipeline, err)
		}
		if page.Next > 0 {
			break
		}
	}
	totals, err := s.Totals(ctx)
	if i := slices.IndexFunc(totals, func(t spec.DeadLetterTotals) bool { return t.PipelineID == pipeline }); i >= 0 {
		page.Totals = totals[i]
	}
	return page, err
}

// listHost lists the dead letters on the disk of this agent.
func (s *Store) listHost(
	ctx context.Context, pipeline string, f spec.DeadLetterFilter, before int64, limit int,
) (spec.DeadLetterPage, error) {
	if before > 0 && before <= hostIDs {
		return spec.DeadLetterPage{DeadLetters: []spec.DeadLetter{},
			Totals: spec.DeadLetterTotals{PipelineID: pipeline}}, nil
	}
	page, err := s.needs.Local.List(ctx, pipeline, f, max(before-hostIDs, 0), limit)
	for i := range page.DeadLetters {
		page.DeadLetters[i].ID += hostIDs
	}
	if page.Next > 0 {
		page.Next += hostIDs
	}
	return page, err
}

// scan builds a page from the queues of a pipeline.
type scan struct {
	queues *queues
	filter spec.DeadLetterFilter
	before int64
	limit  int
	until  time.Time
	page   *spec.DeadLetterPage
}

// queue adds the dead letters of a queue to the page, newest first, until the page is full or the time is over.
func (c *scan) queue(ctx context.Context, claim string) error {
	_, err := c.queues.walk(ctx, always, claim, newestFirst, c.want, func(all []*deadletter.DeadLetter) (bool, error) {
		for _, l := range slices.Backward(all) {
			if c.before > 0 && l.ID >= c.before || !l.Selected(&c.filter) {
				continue
			}
			c.page.DeadLetters = append(c.page.DeadLetters, l.Listed())
			if len(c.page.DeadLetters) == c.limit {
				c.page.Next = l.ID
				return false, nil
			}
		}
		if time.Now().After(c.until) && all[0].ID > 1 {
			c.page.Next = all[0].ID
			return false, nil
		}
		return true, nil
	})
	return err
}

// want reports whether a part may have matching dead letters.
func (c *scan) want(p part) bool {
	return (c.before == 0 || p.First < c.before) && overlaps(p, &c.filter)
}

func overlaps(p part, f *spec.DeadLetterFilter) bool {
	return (f.Since.IsZero() || !p.To.Before(f.Since)) && (f.Until.IsZero() || p.From.Before(f.Until))
}

// Get implements api.DeadLetterStore.
func (s *Store) Get(ctx context.Context, pipeline string, id int64) (found spec.DeadLetter, err error) {
	claim, own, local := s.claimOf(pipeline, id)
	if local {
		found, err = s.needs.Local.Get(ctx, pipeline, own)
		found.ID += id - own
		return found, err
	}
	try, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var short, damaged error
	_, err = s.queues.walk(try, always, claim, newestFirst, withIDs(map[int64]bool{id: true}),
		func(all []*deadletter.DeadLetter) (bool, error) {
			i := slices.IndexFunc(all, func(l *deadletter.DeadLetter) bool { return l.ID == id })
			if i < 0 {
				return true, nil
			}
			found, damaged = all[i].Whole()
			short = deadletter.ReserveFor(ctx, s.needs.Local.Memory, copies*int(found.Bytes))
			return false, nil
		})
	switch {
	case err != nil:
		return spec.DeadLetter{}, unavailable(pipeline, err)
	case damaged != nil || short != nil:
		return spec.DeadLetter{}, cmp.Or(damaged, short)
	case found.ID == 0:
		return found, spec.ErrNotFound
	}
	return found, nil
}

// Select implements deadletter.DeadLetters.
func (s *Store) Select(
	ctx context.Context, pipeline string, request spec.ReplayRequest, reserve deadletter.Reserve,
) (deadletter.Next, error) {
	claims := s.claims(pipeline)
	if len(claims) == 0 {
		return s.needs.Local.Select(ctx, pipeline, request, reserve)
	}
	var all []deadletter.Next
	ids, own := map[int64]bool{}, []int64(nil)
	for _, id := range request.IDs {
		if _, here, local := s.claimOf(pipeline, id); local {
			own = append(own, here)
		} else {
			ids[id] = true
		}
	}
	named := len(request.IDs) > 0
	for _, claim := range slices.Backward(claims) {
		next, err := s.cursor(ctx, claim, request.Filter, ids, named, reserve)
		if err != nil {
			return nil, unavailable(pipeline, err)
		}
		all = append(all, next)
	}
	if !named || len(own) > 0 {
		request.IDs = own
		next, err := s.needs.Local.Select(ctx, pipeline, request, reserve)
		if err != nil {
			return nil, err
		}
		all = append(all, onHost(next))
	}
	return chained(all), nil
}

// chained returns the dead letters of all, one after the other.
func chained(all []deadletter.Next) deadletter.Next {
	return func(ctx context.Context) (some []deadletter.Replay, skipped int, err error) {
		for len(all) > 0 {
			if some, skipped, err = all[0](ctx); err != nil || len(some)+skipped > 0 {
				return some, skipped, err
			}
			all = all[1:]
		}
		return nil, 0, nil
	}
}

// onHost replaces the ids of dead letters on the disk of this agent by their ids in the whole list.
func onHost(next deadletter.Next) deadletter.Next {
	return func(ctx context.Context) ([]deadletter.Replay, int, error) {
		some, skipped, err := next(ctx)
		for i := range some {
			some[i].ID += hostIDs
		}
		return some, skipped, err
	}
}

// cursor iterates over the present dead letters of a queue that are named by ids, or that the filter selects.
func (s *Store) cursor(
	ctx context.Context, claim string, f *spec.DeadLetterFilter, ids map[int64]bool, named bool,
	reserve deadletter.Reserve,
) (deadletter.Next, error) {
	try, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	h, err := s.queues.walk(try, always, claim, newestFirst, func(part) bool { return false }, nil)
	if err != nil {
		return nil, err
	}
	if f == nil {
		f = &spec.DeadLetterFilter{}
	}
	after, within := int64(0), withIDs(ids)
	want := func(p part) bool {
		return p.Last > after && p.First < h.NextID && overlaps(p, f) && (!named || within(p))
	}
	return func(ctx context.Context) (some []deadletter.Replay, skipped int, err error) {
		_, err = s.queues.walk(ctx, always, claim, oldestFirst, want, func(all []*deadletter.DeadLetter) (bool, error) {
			for _, l := range all {
				if l.ID <= after || l.ID >= h.NextID || !l.Selected(f) || named && !ids[l.ID] {
					continue
				}
				after = l.ID
				if l.Stopped {
					skipped++
					continue
				}
				if reserve != nil {
					if err := reserve(ctx, int(2*l.Bytes)); err != nil { // for the JSON of a record and the record
						return false, err
					}
				}
				r, err := l.Replay()
				if err != nil {
					return false, err
				}
				some = append(some, r)
			}
			return len(some)+skipped == 0, nil
		})
		return some, skipped, err
	}, nil
}
