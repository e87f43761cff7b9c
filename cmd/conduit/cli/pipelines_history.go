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
		Short: "List the revisions of a pipeline, oldest first.",
		Long: `Each revision has its author and its changes. The last 100 revisions are kept, up to 8 MiB.
Revisions of a deleted pipeline are kept, without the values of secret settings, up to the limits
db.history.max-age, db.history.max-pipelines and db.history.max-bytes.

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
		Short: "Delete the history, events and dead letters of a deleted pipeline.",
		Long: `Otherwise history and events are deleted when they exceed db.history.max-age,
db.history.max-pipelines or db.history.max-bytes, and dead letters when they exceed
the limits of dead-letters. The data is erased from the files of the stores.
This cannot be undone.

Example:
  conduit pipelines purge orders`,
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if err := r.Purge(ctx, args[0]); err != nil {
				return err
			}
			return r.Say(struct{}{}, "the history of %s is deleted", args[0])
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
		Short: "Return a pipeline to an earlier revision.",
		Long: `Declares the content of an earlier revision as a new revision. It takes effect at once, also while
the pipeline runs. A running pipeline keeps running, and a stopped one stays stopped.

A pipeline of a file needs --file: the agent writes the revision into the file, keeps other
pipelines and comments, and applies the file as after any other save. The command fails if the file
is a link, has errors, or uses YAML that the agent cannot preserve. 'conduit pipelines export ID
--revision REVISION' prints the revision instead.

Examples:
  conduit pipelines rollback orders 4
  conduit pipelines rollback orders 4 --file`,
		Arguments: 2,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&file, "file", false, "write the revision to the file that declares the pipeline")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			revision, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return Invalidf("%q is not a revision; 'conduit pipelines history %s' lists them", args[1], args[0])
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
				return r.Say(now, "%s contains revision %d of %s", status.Owner.Path, revision, args[0])
			}
			now, _, err := r.Rollback(ctx, args[0], revision, client.Live())
			if client.Reason(err) == rest.ReasonOwnedByFile {
				return Invalidf("pipeline %q is declared in a file: to write revision %d to the file, add "+
					"--file; to see it, "+
					"conduit pipelines export %s --revision %d", args[0], revision, args[0], revision)
			}
			if err != nil {
				return err
			}
			return r.Say(now, "%s is rolled back to revision %d", args[0], revision)
		},
	})
}
