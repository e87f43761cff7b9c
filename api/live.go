package api

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

const (
	// interval is the time between two messages of rates.
	interval = time.Second
	// gatherChanges is how long changes are collected before they are sent: an action makes several in a row.
	gatherChanges = 50 * time.Millisecond
	// latest is the number of events sent to a new page.
	latest = 200
	// chunkSize is the maximum number of pipelines in a message, so that no message keeps a page busy for long.
	chunkSize = 50
	// most is the maximum number of events sent at once.
	most = 500
)

// source provides the data that pages follow. All functions may be called concurrently.
type source struct {
	Statuses  func(ctx context.Context) ([]rest.PipelineStatus, error)
	Files     func(ctx context.Context) ([]spec.FileState, error)
	Directory func() spec.Directory
	// Events returns up to limit events with an id above after, oldest first. When after is negative it returns the
	// newest events instead, also oldest first. It returns fewer than limit when events are large, and none only when
	// there are none.
	Events func(ctx context.Context, after int64, limit int) ([]spec.Event, error)
	// Rates returns the rates of the running pipelines, with their series.
	Rates func() []spec.PipelineRates
	// Stages is the id of the pipeline whose rates are sent with connector and processor rates. With a
	// thousand pipelines, stage rates would dominate the messages.
	Stages string
	// Changed returns a channel that is closed soon after the next change.
	Changed func() <-chan struct{}
}

// Follow calls send with everything, and then with every change, until ctx ends or send fails. The messages are the
// rest.Watch* types, each under its name.
func (s *source) Follow(ctx context.Context, send func(name string, message any) error) error {
	f := follower{source: s, send: send, statuses: map[string][]byte{}, after: -1}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		changed := s.Changed() // before reading, so that no change is missed
		if err := f.changes(ctx); err != nil {
			return err
		}
		if err := f.rates(); err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := f.rates(); err != nil {
					return err
				}
			case <-changed:
				waiting = false
			}
		}
		if !sleep(ctx, gatherChanges) {
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Snapshot sends everything by calling send, once.
func (s *source) Snapshot(ctx context.Context, send func(name string, message any) error) error {
	f := follower{source: s, send: send, statuses: map[string][]byte{}, after: -1}
	if err := f.changes(ctx); err != nil {
		return err
	}
	return f.rates()
}

// follower is the state that one page has received.
type follower struct {
	*source
	send     func(name string, message any) error
	statuses map[string][]byte // by pipeline id, as sent
	files    []byte            // as sent
	begun    bool
	after    int64 // last event sent
	series   bool  // the series were sent, and the page continues them
}

// changes sends the differences from the state that was sent last.
func (f *follower) changes(ctx context.Context) error {
	for _, send := range []func(context.Context) error{f.changedStatuses, f.changedFiles, f.newEvents} {
		if err := send(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) changedStatuses(ctx context.Context) error {
	all, err := f.Statuses(ctx)
	if err != nil {
		return err
	}
	m, changed := rest.WatchStatuses{All: !f.begun, Gone: []string{}}, []json.RawMessage{}
	seen := map[string]bool{}
	for i := range all {
		id := all[i].ID
		seen[id] = true
		b, err := json.Marshal(&all[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(b, f.statuses[id]) {
			f.statuses[id] = b
			changed = append(changed, b)
		}
	}
	for id := range f.statuses {
		if !seen[id] {
			delete(f.statuses, id)
			m.Gone = append(m.Gone, id)
		}
	}
	slices.Sort(m.Gone)
	if f.begun && len(changed) == 0 && len(m.Gone) == 0 {
		return nil
	}
	f.begun = true
	for chunk := range slices.Chunk(changed, chunkSize) {
		m.Statuses = chunk
		if err := f.send("statuses", m); err != nil {
			return err
		}
		m = rest.WatchStatuses{Gone: []string{}}
	}
	if len(changed) == 0 {
		m.Statuses = changed
		return f.send("statuses", m)
	}
	return nil
}

func (f *follower) changedFiles(ctx context.Context) error {
	files, err := f.Files(ctx)
	if err != nil {
		return err
	}
	b, err := json.Marshal(rest.WatchFiles{Files: files, Directory: f.Directory()})
	if err != nil || bytes.Equal(b, f.files) {
		return err
	}
	f.files = b
	return f.send("files", json.RawMessage(b))
}

func (f *follower) newEvents(ctx context.Context) error {
	for {
		limit := most
		if f.after < 0 {
			limit = latest
		}
		events, err := f.Events(ctx, f.after, limit)
		if err != nil {
			return err
		}
		f.after = max(f.after, 0)
		if len(events) == 0 {
			return nil
		}
		f.after = events[len(events)-1].ID
		if err := f.send("events", events); err != nil {
			return err
		}
	}
}

// rates sends the rates of the pipelines. The series are sent once, after the first rates.
func (f *follower) rates() error {
	all := append([]spec.PipelineRates{}, f.Rates()...)
	series := make([]rest.WatchSeries, len(all))
	for i := range all {
		series[i] = rest.WatchSeries{ID: all[i].ID, Series: all[i].Series}
		all[i].Series = nil
		if all[i].ID != f.Stages {
			all[i].Stages = nil
		}
	}
	if err := f.send("rates", all); err != nil || f.series {
		return err
	}
	f.series = true
	for chunk := range slices.Chunk(series, chunkSize) {
		if err := f.send("series", chunk); err != nil {
			return err
		}
	}
	return nil
}
