package notification

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// defaultInterval is the default interval between counts of the records of pipelines.
const defaultInterval = time.Second

// The reasons of the events.
const (
	silent       = "Silent"
	recordsAgain = "RecordsAgain"
)

// Silence detects running pipelines that read no record for longer than their max-silence, and records events for
// them. All exported fields are set before Run.
type Silence struct {
	// returns the declarations that changed since revision
	Declarations func(ctx context.Context, revision int64) (spec.Delta[spec.Declaration], error)
	State        func(pipeline string) (spec.State, bool)
	Records      func(pipeline string) uint64 // returns the number of records that the sources have read
	Save         func(context.Context, *spec.Changes) error
	Log          *slog.Logger
	Interval     time.Duration // between two counts; 0: a second

	revision int64                    // of limits; owned by Run
	limits   map[string]time.Duration // max-silence by pipeline; owned by Run

	mu        sync.Mutex
	pipelines map[string]*heard // guarded by mu; running pipelines with a max-silence
}

// heard is when the sources of a pipeline last read a record.
type heard struct {
	records uint64
	at      time.Time // the start of the run, before the first record
	silent  bool
	seen    time.Time // at the last count
}

// Run counts until ctx ends, then it returns nil.
func (s *Silence) Run(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(s.Interval, defaultInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s.save(ctx, s.count(ctx, now))
		}
	}
}

func (s *Silence) save(ctx context.Context, events []spec.Event) {
	if len(events) == 0 {
		return
	}
	if err := s.Save(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot save that pipelines are silent", "component", "notify", "err", err)
	}
}

// All reports, for each running pipeline with a max-silence, whether it is silent.
func (s *Silence) All() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for id, h := range s.pipelines {
		all[id] = h.silent
	}
	return all
}

// Get reports whether a running pipeline with a max-silence is silent. last is when its sources last read a record, or
// when the run began.
func (s *Silence) Get(id string) (last time.Time, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.pipelines[id]; h != nil {
		return h.at, h.silent
	}
	return time.Time{}, false
}

// count returns the events since its last call.
func (s *Silence) count(ctx context.Context, now time.Time) (events []spec.Event) {
	if err := s.update(ctx); err != nil {
		return nil // the store cannot be read, which is reported elsewhere
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pipelines == nil {
		s.pipelines = map[string]*heard{}
	}
	for id, most := range s.limits {
		if state, known := s.State(id); known && state.Phase == spec.PhaseRunning {
			events = append(events, s.observe(now, id, most, &state)...)
		}
	}
	maps.DeleteFunc(s.pipelines, func(_ string, h *heard) bool { return h.seen != now })
	return events
}

// update reads changed declarations.
func (s *Silence) update(ctx context.Context) error {
	changed, err := s.Declarations(ctx, s.revision)
	if err != nil {
		return err
	}
	if changed.All || s.limits == nil {
		s.limits = map[string]time.Duration{}
	}
	s.revision = changed.Revision
	for _, id := range changed.Gone {
		delete(s.limits, id)
	}
	for i := range changed.Rows {
		p := &changed.Rows[i].Pipeline
		delete(s.limits, p.ID)
		if most, err := time.ParseDuration(p.MaxSilence); err == nil && most > 0 {
			s.limits[p.ID] = most
		}
	}
	return nil
}

// observe returns the event that a pipeline fell silent, or that it reads again.
func (s *Silence) observe(now time.Time, id string, most time.Duration, state *spec.State) []spec.Event {
	h, records := s.pipelines[id], s.Records(id)
	if h == nil {
		h = &heard{records: records, at: state.Since}
		s.pipelines[id] = h
	}
	h.seen = now
	if h.records != records {
		h.records, h.at = records, now
	}
	is := now.Sub(h.at) > most
	if is == h.silent {
		return nil
	}
	h.silent = is
	e := spec.Event{At: now, Pipeline: id, Type: spec.EventWarning, Reason: silent,
		Message: fmt.Sprintf("no record for %v, max-silence is %v", now.Sub(h.at).Round(time.Second), most)}
	if !is {
		e.Type, e.Reason, e.Message = "normal", recordsAgain, "records are being read again"
	}
	return []spec.Event{e}
}
