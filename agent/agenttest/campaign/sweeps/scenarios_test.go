//go:build linux && (amd64 || arm64)

package sweeps_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// scenario is a sequence of steps with an agent. The calls of the steps count, those of the setup do not.
type scenario struct {
	name    string
	setup   []step                  // before; the agent stays up after it unless between is set
	between func(root string) error // is called while no agent runs
	steps   []step
	lasting []step // hold also after a restart of the agent
}

// step is an action of a user with its check. do is repeated until it returns nil, which acknowledges the step: it is
// never called again after that, whatever happens to the agent.
type step struct {
	do   func(w *world) error
	done func(w *world) bool
}

func scenarios() []scenario {
	copies := []step{save(copying("")), feed("line", 5), arrives(), runs(1)}
	return []scenario{
		{name: "first start", steps: copies, lasting: []step{runs(1)}},
		{
			name:  "a changed file is rolled out",
			setup: copies,
			steps: []step{save(strings.ReplaceAll(copying(marking), text,
				text+", sdk.batch.size: 3, sdk.batch.delay: 5ms")), rollsOut(2), feed("line", 5), arrives()},
			lasting: []step{runs(2)},
		},
		{
			name:    "positions are committed",
			setup:   copies,
			steps:   slices.Repeat([]step{feed("line", 5), arrives(), idle()}, 4),
			lasting: []step{runs(1)},
		},
		{
			name:    "records are refused",
			setup:   []step{save(copying(refusing)), feed("line", 5), arrives(), runs(1)},
			steps:   append(slices.Repeat([]step{feed("bad", 2), feed("line", 5), arrives()}, 3), refused()),
			lasting: []step{runs(1), refused()},
		},
		{
			name:    "a spool is written, read and rotated",
			setup:   []step{save(spooling), feed("line", 5), arrives(), runs(1)},
			steps:   slices.Repeat([]step{feed(strings.Repeat("long ", 200)+"line", 10), arrives()}, 4),
			lasting: []step{runs(1)},
		},
		{
			name:    "a processor remembers records that are written or refused",
			setup:   []step{save(copying(deduping)), feed("line", 5), arrives(), runs(1)},
			steps:   append(slices.Repeat([]step{feed("bad", 2), feed("line", 5), arrives(), idle()}, 3), refused()),
			lasting: []step{runs(1), refused()},
		},
		{
			name: "a processor remembers records that go to a spool",
			setup: []step{save(strings.Replace(spooling, "  - id: q\n", "    processors: ["+once+"]\n  - id: q\n",
				1)), feed("line", 5), arrives(), runs(1)},
			steps:   slices.Repeat([]step{feed("line", 10), arrives()}, 4),
			lasting: []step{runs(1)},
		},
		{
			name:    "the API declares and deletes a pipeline",
			setup:   []step{feed("line", 5), answers()},
			steps:   []step{imports(), runs(1), arrives(), stops(), deletes()},
			lasting: []step{deleted()},
		},
		{
			name:    "the store of an earlier version is migrated",
			setup:   copies,
			between: undoMigration,
			steps:   []step{feed("line", 5), arrives(), runs(1)},
			lasting: []step{runs(1)},
		},
	}
}

const (
	marking  = `processors: [{id: mark, plugin: field.set, settings: {field: .Metadata.mark, value: second}}]`
	refusing = "dead-letter-queue: {window-size: 0}\n    processors: [" + refusal + "]"
	deduping = "dead-letter-queue: {window-size: 0}\n    processors: [" + once + ", " + refusal + "]"
	once     = `{id: once, plugin: dedupe, settings: {key: .Payload.After}}`
	refusal  = `{id: e, plugin: error, condition: '{{ hasPrefix "bad" (printf "%s" .Payload.After) }}'}`
	text     = `sdk.record.format: template, sdk.record.format.options: '{{ printf "%s" .Payload.After }}'`
)

// copying is a pipeline file that copies lines, with additional keys.
func copying(more string) string {
	return `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: "ROOT/in"}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: "ROOT/agent/out", ` + text + `}}
    ` + more + "\n"
}

const spooling = `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: "ROOT/in"}}
      - {id: out, type: destination, plugin: builtin:spool, settings: {path: "ROOT/agent/spool", limit.bytes: 65536}}
  - id: q
    connectors:
      - {id: in, type: source, plugin: builtin:spool, settings: {path: "ROOT/agent/spool"}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: "ROOT/agent/out", ` + text + `}}
`

// save saves the pipeline file.
func save(content string) step {
	return step{do: func(w *world) error {
		path := filepath.Join(w.dir, "pipelines", "p.yaml")
		if err := os.WriteFile(path+".tmp", []byte(strings.ReplaceAll(content, "ROOT", w.root)), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".tmp", path)
	}}
}

// feed appends good or bad lines to the input. Each kind is numbered separately.
func feed(text string, count int) step {
	return step{do: func(w *world) error {
		number := &w.good
		if text == "bad" {
			number = &w.bad
		}
		var lines strings.Builder
		for range count {
			*number++
			fmt.Fprintf(&lines, "%s %d\n", text, *number)
		}
		f, err := os.OpenFile(filepath.Join(w.root, "in"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(lines.String())
		return errors.Join(err, f.Close())
	}}
}

// arrives waits until all good lines have arrived.
func arrives() step {
	return step{done: func(w *world) bool {
		lines := w.output()
		return len(lines) > 0 && slices.Max(lines) == w.good
	}}
}

// idle waits until the agent has not changed its files for a while, so that it has saved everything.
func idle() step { return step{done: (*world).idle} }

// answers waits until the agent answers.
func answers() step {
	return step{done: func(w *world) bool { return w.agent.api.Healthy(w.t.Context()) == nil }}
}

// runs waits until a generation of pipeline p runs and is the last known good one.
func runs(generation int64) step {
	return step{done: func(w *world) bool {
		s, err := w.agent.api.Status(w.t.Context(), "p")
		return err == nil && s.Generation == generation && s.State.RunningGeneration == generation &&
			s.State.Phase == spec.PhaseRunning && s.State.LastGood != nil && s.State.LastGood.Generation == generation
	}}
}

// rollsOut is runs for a version that replaces another one. If its destination fails, the version is refused, the
// status reports that, and the user restarts it.
func rollsOut(generation int64) step {
	proven := runs(generation)
	return step{done: func(w *world) bool {
		if proven.done(w) {
			return true
		}
		s, err := w.agent.api.Status(w.t.Context(), "p")
		if err == nil && strings.HasSuffix(w.at.call, " out") && s.State.RunningGeneration == generation-1 &&
			s.State.LastAttempt.Error != "" {
			_ = w.agent.api.RestartPipeline(w.t.Context(), "p") // otherwise it is retried
		}
		return false
	}}
}

// refused waits until each bad line is one dead letter.
func refused() step {
	return step{done: func(w *world) bool {
		page, err := w.agent.api.DeadLetters(w.t.Context(), "p", spec.DeadLetterFilter{}, 0, 1000)
		return err == nil && len(page.DeadLetters) == w.bad
	}}
}

// imports declares pipeline p over the API.
func imports() step {
	return step{do: func(w *world) error {
		_, err := w.agent.api.Import(w.t.Context(), []byte(strings.ReplaceAll(copying(""), "ROOT", w.root)),
			client.Key("import"))
		return err
	}}
}

// stops stops pipeline p and deletes its connectors.
func stops() step {
	return step{do: func(w *world) error {
		err := unlessDone(w.agent.api.StopPipeline(w.t.Context(), "p", client.Key("stop")))
		for _, id := range []string{"p:in", "p:out"} {
			if err == nil {
				err = unlessDone(w.agent.api.DeleteConnector(w.t.Context(), id))
			}
		}
		return err
	}}
}

// deletes deletes pipeline p.
func deletes() step {
	return step{do: func(w *world) error { return unlessDone(w.agent.api.DeletePipeline(w.t.Context(), "p")) }}
}

// unlessDone returns nil for an error that says that there is nothing to do, because the answer to an earlier attempt
// was lost.
func unlessDone(err error) error {
	switch client.Reason(err) {
	case rest.ReasonPipelineNotRunning, rest.ReasonPipelineNotFound, rest.ReasonConnectorNotFound:
		return nil
	}
	return err
}

// deleted waits until pipeline p is deleted, and its history remains.
func deleted() step {
	return step{done: func(w *world) bool {
		_, _, err := w.agent.api.Pipeline(w.t.Context(), "p")
		history, other := w.agent.api.History(w.t.Context(), "p")
		return client.Reason(err) == rest.ReasonPipelineNotFound && other == nil && len(history) > 1
	}}
}

// undoMigration converts the store to an earlier version.
func undoMigration(root string) error {
	db, err := sql.Open("sqlite3", filepath.Join(root, "agent", "conduit.db"))
	if err != nil {
		return err
	}
	_, err = db.Exec(`DROP TABLE deleted; DELETE FROM migrations WHERE name = '0007_deleted'`)
	return errors.Join(err, db.Close())
}
