package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// TestErrorsAreBrief saves errors that exceed the maximum length.
func TestErrorsAreBrief(t *testing.T) {
	t.Parallel()
	db, ctx := newStore(t), t.Context()
	long := strings.Repeat("ä", 1<<20)
	state := spec.State{PipelineID: "p", Error: long, LastAttempt: &spec.Attempt{Error: long}}
	must(t, db.SaveStates(ctx, []spec.State{state}, spec.Event{Reason: "Failed", Message: long}))
	must(t, db.SaveConnectorState(ctx, &spec.ConnectorState{ID: "p:c", PipelineID: "p", Error: long}))
	must(t, db.Apply(ctx,
		&spec.Changes{Files: []spec.FileState{{Path: "a.yaml", Problems: []spec.Problem{{Message: long}}}}}))
	files, err := db.FileStates(ctx)
	must(t, err)
	states, err := db.States(ctx)
	must(t, err)
	connector, err := db.ConnectorState(ctx, "p:c")
	must(t, err)
	events, err := db.Events(ctx, -1, 10)
	must(t, err)
	want := texts.TruncateError(long)
	if s := states[0]; s.Error != want || s.LastAttempt.Error != want || connector.Error != want || len(events) != 1 ||
		events[0].Message != want ||
		files[0].Problems[0].Message != want {
		t.Error("the text of an error is kept whole")
	}
	if state.LastAttempt.Error != long {
		t.Error("what was saved was changed")
	}
}

// earlier fills a store like an earlier version: with events and a state whose errors have many bytes.
func earlier(t *testing.T, path string, events, size int) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer db.Close()
	text := strings.Repeat("x", size)
	for range events {
		_, err := db.Exec(
			`INSERT INTO events (at, pipeline_id, file, type, reason, message) VALUES (1, 'p', '', 'warning', `+
				`'Failed', ?)`, text)
		must(t, err)
	}
	_, err = db.Exec(`INSERT INTO states (id, doc) VALUES ('p', json_object('pipelineId', 'p', 'error', ?))`, text)
	must(t, err)
}

// TestErrorsOfEarlierVersions opens a store with very long errors. They are listed in part, and the next event makes
// the store delete the oldest.
func TestErrorsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "conduit.db")
	must(t, open(t, path).Close())
	const size = 2 << 20
	earlier(t, path, 12, size)
	db, ctx := open(t, path), t.Context()
	events, err := db.Events(ctx, -1, 100)
	must(t, err)
	if len(events) != 12 || len(events[0].Message) > texts.MaxError {
		t.Fatalf("%d events, the first with %d bytes", len(events), len(events[0].Message))
	}
	states, err := db.States(ctx)
	must(t, err)
	if len(states[0].Error) > texts.MaxError {
		t.Errorf("the error of a state has %d bytes", len(states[0].Error))
	}
	must(t, db.SaveStates(ctx, nil, spec.Event{Reason: "New"}))
	events, err = db.Events(ctx, -1, 100)
	must(t, err)
	if n := len(events); n != 8 || events[n-1].Reason != "New" { // 16 MiB hold 7 old events and the new one
		t.Errorf("%d events are left", n)
	}
}

// TestEventsArePaged reads more events than fit into one page, in both directions.
func TestEventsArePaged(t *testing.T) {
	t.Parallel()
	db, ctx := newStore(t), t.Context()
	all := make([]spec.Event, 1000)
	for i := range all {
		all[i].Message = strings.Repeat("y", texts.MaxError)
	}
	must(t, db.SaveStates(ctx, nil, all...))
	read, pages := 0, 0
	for after := int64(0); ; pages++ {
		page, err := db.Events(ctx, after, 1000)
		must(t, err)
		if len(page) == 0 {
			break
		}
		bytes := 0
		for _, e := range page {
			bytes += len(e.Message)
		}
		if bytes > 2<<20 {
			t.Errorf("a page has %d bytes", bytes)
		}
		read, after = read+len(page), page[len(page)-1].ID
	}
	newest, err := db.Events(ctx, -1, 1000)
	must(t, err)
	if n := len(newest); read != 1000 || pages < 2 || n < 100 || n >= 1000 || newest[n-1].ID != 1000 ||
		newest[0].ID != 1001-int64(n) {
		t.Errorf("%d events in %d pages; of the newest, %d", read, pages, n)
	}
}

// TestHistoryIsBoundedByBytes declares a large pipeline again and again.
func TestHistoryIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	db, ctx := newStore(t), t.Context()
	for i := range 12 {
		must(t, db.Apply(ctx, with(func(p *spec.Pipeline) {
			p.Description = fmt.Sprint(i, strings.Repeat("x", 1<<20))
		})))
	}
	revisions, err := db.History(ctx, "p")
	must(t, err)
	if n := len(revisions); n != 7 || revisions[n-1].Number != 12 {
		t.Errorf("%d revisions are kept", n)
	}
	_, err = db.Revision(ctx, "p", 5)
	wantError(t, err, spec.ErrNotFound)
}
