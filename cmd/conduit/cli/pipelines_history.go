package cli

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func historyCommand(p *Program) *ffcli.Command {
	return p.Remote("history", RemoteCommand{
		Usage: "conduit pipelines history ID",
		Short: "List what was declared of a pipeline, oldest first.",
		Long: `Each revision stands with who made it and what it changed. The last 100 are
kept, as far as they take no more than 8 MiB. Those of a pipeline that is deleted are kept, without the values of
secret settings, as db.history.max-age and its like say.

Example:
  conduit pipelines history orders`,
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			revisions, err := r.History(ctx, args[0])
			if err != nil {
				return err
			}
			var t terminal.Table
			t.Add("REVISION", "GENERATION", "AT", "BY", "ACTION", "CHANGED")
			var before *spec.Pipeline
			for _, v := range revisions {
				t.Add(v.Number, v.Generation, terminal.Moment(v.At), v.Origin, v.Action, changedWords(before, v.Spec))
				if !strings.Contains(v.Action, "position") { // a moved position leaves the declaration unchanged
					before = v.Spec
				}
			}
			return r.Show(revisions, &t)
		},
	})
}

func purgeCommand(p *Program) *ffcli.Command {
	return p.Remote("purge", RemoteCommand{
		Usage: "conduit pipelines purge ID",
		Short: "Forget the history, events and dead letters of a deleted pipeline now.",
		Long: `Without this, history and events are forgotten when they exceed
db.history.max-age, db.history.max-pipelines or db.history.max-bytes, and dead
letters when they exceed the limits of dead-letters. Nothing of them is left in
the files of the stores. It cannot be undone.

Example:
  conduit pipelines purge orders`,
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if err := r.Purge(ctx, args[0]); err != nil {
				return err
			}
			return r.Say(struct{}{}, "nothing is kept of %s any more", args[0])
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
	words := terminal.Dash(strings.Join(paths, ", "))
	if more := len(changes) - namedChanges; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

func rollbackCommand(p *Program) *ffcli.Command {
	var file bool
	return p.Remote("rollback", RemoteCommand{
		Usage: "conduit pipelines rollback ID REVISION [--file]",
		Short: "Declare again what a revision declared.",
		Long: `It takes effect at once, also while the pipeline runs, and is a revision of its own. What is
running stays so, and what is stopped.

The pipeline of a file takes --file: the agent writes the revision into the file, where other
pipelines and comments stay as they are, and applies it as after any other save. It refuses when the
file is a link, has errors, or is written in a way that it cannot keep. 'conduit pipelines export ID
--revision REVISION' prints the revision instead.

Examples:
  conduit pipelines rollback orders 4
  conduit pipelines rollback orders 4 --file`,
		Arguments: 2,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&file, "file", false, "write it to the file that declares the pipeline")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			revision, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return Invalidf("not a revision: %q; 'conduit pipelines history %s' lists them", args[1], args[0])
			}
			if file {
				now, _, err := r.RollbackFile(ctx, args[0], revision)
				if err != nil {
					return err
				}
				status, err := r.Status(ctx, args[0])
				if err != nil {
					return err
				}
				return r.Say(now, "%s declares what revision %d declared of %s", status.Owner.Path, revision, args[0])
			}
			now, _, err := r.Rollback(ctx, args[0], revision, client.Live())
			if client.Reason(err) == rest.ReasonOwnedByFile {
				return Invalidf("pipeline %q is declared in a file: to have the agent write revision %d there, add "+
					"--file; to see it, "+
					"conduit pipelines export %s --revision %d", args[0], revision, args[0], revision)
			}
			if err != nil {
				return err
			}
			return r.Say(now, "%s is what revision %d declared", args[0], revision)
		},
	})
}
