package cli

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/pluginname"
)

func positionCommand(p *Program) *ffcli.Command {
	var yes, encoded bool
	return p.Remote("position", RemoteCommand{
		Usage: "conduit connectors position ID [set POSITION | reset]",
		Short: "Show, move or reset the position of a source.",
		Long: `ID is PIPELINE:CONNECTOR. Without an action the command shows the saved position: all records up to it
are settled. set and reset require a stopped pipeline. They first show which records will be delivered
again or skipped, and ask for confirmation unless --yes is given. The change is recorded in the events
and the history of the pipeline.

The format of a position depends on the plugin, which reads it when the pipeline starts. set takes the
text shown, or base64 with --base64. reset deletes the position: the source starts as its settings say.

Examples:
  conduit connectors position orders:shop
  conduit connectors position orders:shop set '{"offset":120}'
  conduit connectors position orders:shop reset --yes`,
		Arguments: 1,
		Optional:  2,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&yes, "yes", false, "do not ask for confirmation")
			fs.BoolVar(&encoded, "base64", false, "POSITION is base64")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			to, err := target(args[1:], encoded)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				now, _, err := r.Position(ctx, args[0])
				if err != nil {
					return err
				}
				return showPosition(r, &now)
			}
			now, etag, err := r.PositionMove(ctx, args[0], to)
			if err != nil {
				return err
			}
			if s, err := r.Status(ctx, now.PipelineID); err == nil && !Stopped(&s) {
				return Invalidf("pipeline %q is not stopped: a position can be moved only while no source reads; stop "+
					"it first: conduit pipelines stop %[1]s", s.ID)
			}
			from := "the beginning"
			if now.Position != nil {
				from = positionText(now.Position)
			}
			fmt.Fprintf(r.Stderr, "%s resumes from %s.\n%s\n", now.ConnectorID, terminal.Clean(from),
				terminal.Clean(now.Consequence))
			if err := r.Confirm(yes, "Do it?"); err != nil {
				return err
			}
			return movePosition(ctx, r, &now, to, etag)
		},
	})
}

// target returns the position in words, nil for none.
func target(words []string, encoded bool) ([]byte, error) {
	switch {
	case len(words) == 0, len(words) == 1 && words[0] == "reset":
		return nil, nil
	case words[0] != "set":
		return nil, Invalidf("unknown action %s; use set or reset", strings.Join(words, " "))
	case len(words) == 1 || words[1] == "":
		return nil, Invalidf("set needs a position; to start over, use reset")
	case !encoded:
		return []byte(words[1]), nil
	}
	position, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return nil, Invalidf("the position is not base64: %v", err)
	}
	return position, nil
}

func showPosition(r *Remote, p *rest.Position) error {
	var t terminal.Table
	t.Add("source", p.ConnectorID)
	t.Add("plugin", p.Plugin)
	if p.Position == nil {
		t.Add("position", "none: the source starts as its settings say")
		return r.Show(p, &t)
	}
	t.Add("position", positionText(p.Position))
	t.Add("saved by", fmt.Sprintf("run %d, after %s", p.Epoch, terminal.Count(int(p.Records), "record")))
	if unreadable(p) {
		t.Add("", fmt.Sprintf("of the plugin %s, which %s cannot read: the source starts over", p.SavedBy, p.Plugin))
	}
	return r.Show(p, &t)
}

// unreadable reports whether another plugin saved the position.
func unreadable(p *rest.Position) bool {
	return p.SavedBy != "" && pluginname.Bare(p.SavedBy) != pluginname.Bare(p.Plugin)
}

// positionText returns a position as text, or in base64 if it is no text.
func positionText(p []byte) string {
	if terminal.IsPrintable(string(p)) {
		return string(p)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(p)
}

func movePosition(ctx context.Context, r *Remote, now *rest.Position, to []byte, etag string) (err error) {
	var moved rest.Position
	if to == nil {
		moved, _, err = r.ResetPosition(ctx, now.ConnectorID, client.IfMatch(etag))
	} else {
		moved, _, err = r.SetPosition(ctx, now.ConnectorID, to, client.IfMatch(etag))
	}
	if err != nil {
		return err
	}
	if moved.Position == nil {
		return r.Say(moved, "%s has no position; to start: conduit pipelines start %s", moved.ConnectorID,
			moved.PipelineID)
	}
	return r.Say(moved, "%s will resume from %s; to start: conduit pipelines start %s", moved.ConnectorID,
		terminal.Clean(positionText(moved.Position)), moved.PipelineID)
}
