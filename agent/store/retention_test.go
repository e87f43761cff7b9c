package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// TestDeletedPipelinesAreForgotten deletes pipelines until each bound in turn is exceeded.
func TestDeletedPipelinesAreForgotten(t *testing.T) {
	for name, retention := range map[string]store.Retention{
		"age":       {Age: 90 * time.Minute, Pipelines: 100, Bytes: 1 << 30},
		"pipelines": {Age: 1000 * time.Hour, Pipelines: 2, Bytes: 1 << 30},
		"bytes":     {Age: 1000 * time.Hour, Pipelines: 100, Bytes: 600},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, now := t.Context(), time.Unix(1e9, 0)
			db := open(t, filepath.Join(t.TempDir(), "conduit.db"), store.WithClock(func() time.Time { return now }))
			db.Retention = &retention
			must(t, db.Apply(ctx, declare(pipeline("kept"))))
			for i := range 5 {
				id := fmt.Sprint("p", i)
				must(t, db.Apply(ctx, declare(pipeline(id))))
				must(t, db.Apply(ctx, withdraw(id, true)))
				must(t, db.DeletePipeline(ctx, id))
				now = now.Add(time.Hour)
			}
			must(t, db.Prune(ctx))
			for id, want := range map[string]bool{"kept": true, "p0": false, "p1": false, "p2": false,
				"p3": name != "age", "p4": true} {
				revisions, err := db.History(ctx, id)
				must(t, err)
				if got := len(revisions) > 0; got != want {
					t.Errorf("history of %s is kept: %v, want %v", id, got, want)
				}
			}
			must(t, db.Apply(ctx, declare(pipeline("p4"))))
			now = now.Add(10_000 * time.Hour)
			must(t, db.Prune(ctx))
			if revisions, err := db.History(ctx, "p4"); err != nil || len(revisions) != 3 {
				t.Errorf("of a pipeline that is declared again %d revisions are left, %v", len(revisions), err)
			}
		})
	}
}

// TestRunsOfDeletedPipelinesAreForgotten checks that a pipeline that is declared again gets higher epochs than before.
func TestRunsOfDeletedPipelinesAreForgotten(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	var before int64
	for i := range 3 {
		must(t, db.Apply(ctx, declare(pipeline("p"))))
		_, err := db.BeginRun(ctx, "p")
		must(t, err)
		epoch, err := db.BeginRun(ctx, "p")
		must(t, err)
		if epoch <= before {
			t.Errorf("life %d has epoch %d, the one before had %d", i, epoch, before)
		}
		must(t, db.Apply(ctx, withdraw("p", true)))
		must(t, db.DeletePipeline(ctx, "p"))
		zombie := []spec.Checkpoint{{ConnectorID: "p:s", PipelineID: "p", Position: []byte("x"), Epoch: epoch,
			Sequence: 1}}
		wantError(t, db.SaveCheckpoints(ctx, zombie), store.ErrFenced)
		if before > 0 {
			zombie[0].Epoch = before
			wantError(t, db.SaveCheckpoints(ctx, zombie), store.ErrFenced)
		}
		before = epoch
	}
	if n, err := db.Count("runs"); err != nil || n != 1 {
		t.Errorf("%d rows of runs are left, %v; want the one of all deleted pipelines", n, err)
	}
}

// TestNoSecretOutlivesItsPipeline stores secrets in every kind of setting. It searches the files of the store for them
// after the deletion, and for the whole declaration after a purge.
func TestNoSecretOutlivesItsPipeline(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "conduit.db"), t.Context()
	db := open(t, path)
	must(t, db.Apply(ctx, declare(pipeline("other"))))
	wantError(t, db.Purge(ctx, "p"), spec.ErrNotFound)
	p := pipeline("p")
	p.Connectors[0].Settings = map[string]string{"password": "canary-source", "url": "plain-url"}
	p.Connectors[0].Processors = []spec.Processor{{ID: "c", Plugin: "x", Workers: 1,
		Settings: map[string]string{"api-key": "canary-inner"}}}
	p.Processors = []spec.Processor{{ID: "q", Plugin: "x", Workers: 1,
		Settings: map[string]string{"token": "canary-processor"}}}
	p.DeadLetterQueue.Settings = map[string]string{"secret": "canary-dlq"}
	for i := range 30 { // so many that pages are freed
		p.Description = fmt.Sprint("description-", i)
		must(t, db.Apply(ctx, declare(p)))
	}
	must(t, db.SaveStates(ctx, []spec.State{{PipelineID: "p", LastGood: &spec.LastGood{Pipeline: p}}},
		spec.Event{Pipeline: "p", Type: "normal", Reason: "Started", Message: "event-of-p"}))
	must(t, db.SaveConnectorState(ctx, &spec.ConnectorState{ID: "p:in", PipelineID: "p",
		Active: p.Connectors[0].Settings}))
	found := func(text string) bool {
		t.Helper()
		for _, name := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte(text)) {
				return true
			}
		}
		return false
	}
	if !found("canary-source") || !found("canary-inner") || !found("canary-processor") || !found("canary-dlq") {
		t.Fatal("the secrets are not in the store to begin with")
	}
	wantError(t, db.Purge(ctx, "p"), spec.ErrConflict, `"p"`)
	must(t, db.Apply(ctx, withdraw("p", true)))
	wantError(t, db.Purge(ctx, "p"), spec.ErrConflict)
	must(t, db.DeleteConnector(ctx, "p:in"))
	must(t, db.DeletePipeline(ctx, "p"))
	if found("canary") {
		t.Error("a secret is in the store after its pipeline was deleted")
	}
	revisions, err := db.History(ctx, "p")
	must(t, err)
	if len(revisions) < 30 || revisions[0].Spec.Connectors[0].Settings["password"] != spec.Redacted ||
		revisions[0].Spec.Connectors[0].Settings["url"] != "plain-url" {
		t.Errorf("the history is %d revisions, the first %+v", len(revisions), revisions[0].Spec)
	}
	must(t, db.Purge(ctx, "p"))
	for _, text := range []string{"plain-url", "description-", "event-of-p"} {
		if found(text) {
			t.Errorf("%q is in the store after a purge", text)
		}
	}
	if revisions, err := db.History(ctx, "other"); err != nil || len(revisions) != 1 {
		t.Errorf("of another pipeline %d revisions are left, %v", len(revisions), err)
	}
}
