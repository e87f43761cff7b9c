package connectors

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/pluginname"
)

func positionCommand(p *cli.Program) *ffcli.Command {
	var yes, encoded bool
	return p.Remote("position", cli.RemoteCommand{
		Usage: "conduit connectors position ID [set POSITION | reset]",
		Short: "Show where a source resumes; move it, or have it begin anew.",
		Long: `ID is PIPELINE:CONNECTOR. Without more it shows the position that is saved: every record up to it is
settled. set and reset need a pipeline that is stopped. They say first what will be delivered again
or skipped, and ask, unless --yes is given. Events and history of the pipeline have what was done.

A position is what its plugin made it; it is read when the pipeline starts. set takes the text that
is shown, or base64 with --base64. reset forgets the position: the source begins as its settings say.

Examples:
  conduit connectors position orders:shop
  conduit connectors position orders:shop set '{"offset":120}'
  conduit connectors position orders:shop reset --yes`,
		Arguments: 1,
		Optional:  2,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&yes, "yes", false, "do not ask")
			fs.BoolVar(&encoded, "base64", false, "POSITION is base64")
		},
		Exec: func(ctx context.Context, r *cli.Remote, args []string) error {
			to, err := target(args[1:], encoded)
			if err != nil {
				return err
			}
			now, etag, err := r.Position(ctx, args[0])
			if err != nil || len(args) == 1 {
				return errorOr(err, func() error { return showPosition(r, &now) })
			}
			fmt.Fprintln(r.Stderr, terminal.Clean(consequence(&now, to)))
			if err := r.Confirm(yes, "Do it?"); err != nil {
				return err
			}
			return movePosition(ctx, r, &now, to, etag)
		},
	})
}

func errorOr(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

// target returns the position that the words ask for, nil for none.
func target(words []string, encoded bool) ([]byte, error) {
	switch {
	case len(words) == 0, len(words) == 1 && words[0] == "reset":
		return nil, nil
	case words[0] != "set":
		return nil, cli.Invalidf("%s is neither set nor reset", strings.Join(words, " "))
	case len(words) == 1 || words[1] == "":
		return nil, cli.Invalidf("set needs a position; to have the source begin anew: reset")
	case !encoded:
		return []byte(words[1]), nil
	}
	position, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return nil, cli.Invalidf("the position is not base64: %v", err)
	}
	return position, nil
}

func showPosition(r *cli.Remote, p *rest.Position) error {
	var t terminal.Table
	t.Add("source", p.ConnectorID)
	t.Add("plugin", p.Plugin)
	if p.Position == nil {
		t.Add("position", "none: it begins as its settings say")
		return r.Show(p, &t)
	}
	t.Add("position", positionText(p.Position))
	t.Add("saved by", fmt.Sprintf("run %d, after %s", p.Epoch, terminal.Count(int(p.Records), "record")))
	if unreadable(p) {
		t.Add("", fmt.Sprintf("of the plugin %s, which %s cannot read: the source begins anew", p.SavedBy, p.Plugin))
	}
	return r.Show(p, &t)
}

// unreadable reports whether another plugin saved the position.
func unreadable(p *rest.Position) bool {
	return p.SavedBy != "" && pluginname.Bare(p.SavedBy) != pluginname.Bare(p.Plugin)
}

// positionText is a position as it is typed, or base64 where it is no text.
func positionText(p []byte) string {
	if terminal.IsPrintable(string(p)) {
		return string(p)
	}
	return "base64 " + base64.StdEncoding.EncodeToString(p)
}

// consequence says what moving the position does to the records of the source.
func consequence(now *rest.Position, to []byte) string {
	from := "the beginning"
	if now.Position != nil {
		from = positionText(now.Position)
	}
	head := fmt.Sprintf("%s resumes from %s.\n", now.ConnectorID, from)
	switch {
	case now.Position == nil && to == nil:
		return head + "It has no position, so there is nothing to forget."
	case to == nil:
		return head + "Without a position it begins as its settings say: it delivers again what it delivered before and is still there, and\n" +
			"skips what came since, if its settings have it begin with what is new."
	case bytes.Equal(now.Position, to):
		return head + "That is what it is to resume from."
	}
	return head + fmt.Sprintf("From %s %s", positionText(to), direction(now.Position, to))
}

// direction says which way a position moves, as far as the fields of the two can be compared.
func direction(from, to []byte) string {
	before, after := fields(from), fields(to)
	var earlier, later []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		old, known := before[name]
		switch words := strings.TrimSpace(fmt.Sprintf("%s %v instead of %v", name, after[name], old)); {
		case known && after[name] < old:
			earlier = append(earlier, words)
		case known && after[name] > old:
			later = append(later, words)
		}
	}
	switch {
	case len(earlier) > 0 && len(later) == 0:
		return fmt.Sprintf("it delivers again what is between (%s).", strings.Join(earlier, ", "))
	case len(later) > 0 && len(earlier) == 0:
		return fmt.Sprintf("it skips what is between (%s).", strings.Join(later, ", "))
	}
	return "it delivers again what is between if that is earlier, and skips it if it is later: only the plugin can compare them."
}

// fields are the numbers of a position: itself, what it begins with, or the fields of an object.
func fields(position []byte) map[string]float64 {
	first, _, _ := strings.Cut(string(position), ";")
	if n, err := strconv.ParseUint(first, 10, 53); err == nil {
		return map[string]float64{"": float64(n)}
	}
	var v any
	if d := json.NewDecoder(bytes.NewReader(position)); d.Decode(&v) != nil || d.Decode(new(any)) != io.EOF {
		return nil
	}
	object, _ := v.(map[string]any)
	numbers := map[string]float64{}
	for name, value := range object {
		if n, ok := value.(float64); ok {
			numbers[name] = n
		}
	}
	return numbers
}

func movePosition(ctx context.Context, r *cli.Remote, now *rest.Position, to []byte, etag string) (err error) {
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
		return r.Say(moved, "%s has no position; to start: conduit pipelines start %s", moved.ConnectorID, moved.PipelineID)
	}
	return r.Say(moved, "%s is to resume from %s; to start: conduit pipelines start %s", moved.ConnectorID, terminal.Clean(positionText(moved.Position)), moved.PipelineID)
}
