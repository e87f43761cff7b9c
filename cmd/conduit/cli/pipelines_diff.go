package cli

import (
	"context"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

func diffCommand(p *Program) *ffcli.Command {
	return p.Remote("diff", RemoteCommand{
		Usage: "conduit pipelines diff ID [FROM [TO]]",
		Short: "Show a change of a pipeline: fields, values and effect.",
		Long: `FROM and TO are generations listed by 'conduit pipelines history', or the word running. TO defaults
to the latest generation. Without FROM the command shows the last change. Secrets are shown as ***.

Examples:
  conduit pipelines diff orders
  conduit pipelines diff orders running`,
		Arguments: 1, Optional: 2,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			words := append(args[1:], "", "")
			d, err := r.Diff(ctx, args[0], words[0], words[1])
			if err != nil {
				return err
			}
			if r.JSON {
				return r.WriteJSON(d)
			}
			return writeDiff(r, &d)
		},
	})
}

func writeDiff(r *Remote, d *rest.Diff) error {
	if d.From != nil {
		fmt.Fprintf(r.Stdout, "from %s\n", versionWords(d.From))
	}
	fmt.Fprintf(r.Stdout, "to   %s\n", versionWords(&d.To))
	switch {
	case d.From == nil:
		return r.Say(nil, "the pipeline is new")
	case len(d.Changes) == 0:
		return r.Say(nil, "nothing differs")
	}
	var t terminal.Table
	for _, c := range d.Changes {
		symbol := actionSymbols[c.Action]
		t.Add(terminal.Colored(symbol+" "+c.Path, symbolColors[symbol]), valueWords(c.Old, c.New), string(c.Effect))
	}
	return t.Write(r.Stdout, r.Paint)
}

func versionWords(v *rest.Version) string {
	words := fmt.Sprintf("generation %d", v.Generation)
	if v.Revision == 0 {
		return words
	}
	return fmt.Sprintf("%s, revision %d, %s, by %s", words, v.Revision, terminal.Moment(v.At), v.Origin)
}

const longValue = 40

// valueWords shows the values of a field before and after a change.
func valueWords(old, new *string) string {
	switch {
	case old != nil && new != nil:
		return fmt.Sprintf("%s → %s", shortened(*old), shortened(*new))
	case old != nil:
		return shortened(*old)
	case new != nil:
		return shortened(*new)
	}
	return ""
}

func shortened(value string) string {
	if runes := []rune(value); len(runes) > longValue {
		value = string(runes[:longValue]) + "…"
	}
	if value == "" {
		return `""`
	}
	return value
}
