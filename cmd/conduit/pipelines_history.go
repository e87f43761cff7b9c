package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

func historyCommand(p *program) *ffcli.Command {
	return p.remote("history", remoteCommand{
		usage: "conduit pipelines history ID",
		short: "List what was declared of a pipeline, oldest first.",
		long: `Each revision stands with who made it and what it changed. The last 100 are
kept. Those of a pipeline that is deleted are kept, without the values of
secret settings, as db.history.max-age and its like say.

Example:
  conduit pipelines history orders`,
		arguments: 1,
		exec: func(ctx context.Context, r *remote, args []string) error {
			revisions, err := r.History(ctx, args[0])
			if err != nil {
				return err
			}
			var t table
			t.add("REVISION", "GENERATION", "AT", "BY", "ACTION", "CHANGED")
			var before *spec.Pipeline
			for _, v := range revisions {
				t.add(v.Number, v.Generation, moment(v.At), v.Origin, v.Action, changedWords(before, v.Spec))
				before = v.Spec
			}
			return r.show(revisions, &t)
		},
	})
}

func purgeCommand(p *program) *ffcli.Command {
	return p.remote("purge", remoteCommand{
		usage: "conduit pipelines purge ID",
		short: "Forget the history, events and dead letters of a deleted pipeline now.",
		long: `Without this, history and events are forgotten when they exceed
db.history.max-age, db.history.max-pipelines or db.history.max-bytes, and dead
letters when they exceed the limits of dead-letters. Nothing of them is left in
the files of the stores. It cannot be undone.

Example:
  conduit pipelines purge orders`,
		arguments: 1,
		exec: func(ctx context.Context, r *remote, args []string) error {
			if err := r.Purge(ctx, args[0]); err != nil {
				return err
			}
			return r.say(struct{}{}, "nothing is kept of %s any more", args[0])
		},
	})
}

const namedChanges = 3

// changedWords names the first few fields that differ.
func changedWords(before, after *spec.Pipeline) string {
	if before == nil || after == nil {
		return "-"
	}
	changes := spec.Diff(before, after)
	var paths []string
	for _, c := range changes[:min(len(changes), namedChanges)] {
		paths = append(paths, c.Path)
	}
	words := dash(strings.Join(paths, ", "))
	if more := len(changes) - namedChanges; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

func rollbackCommand(p *program) *ffcli.Command {
	return p.remote("rollback", remoteCommand{
		usage: "conduit pipelines rollback ID REVISION",
		short: "Declare again what a revision declared.",
		long: `It takes effect at once, also while the pipeline runs, and is a revision of its own. What is
running stays so, and what is stopped. The pipeline of a file is rolled back by changing the file.

Example:
  conduit pipelines rollback orders 4`,
		arguments: 2,
		exec: func(ctx context.Context, r *remote, args []string) error {
			revision, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return invalidf("not a revision: %q; 'conduit pipelines history %s' lists them", args[1], args[0])
			}
			now, _, err := r.Rollback(ctx, args[0], revision, client.Live())
			if err != nil {
				return err
			}
			return r.say(now, "%s is what revision %d declared", args[0], revision)
		},
	})
}
