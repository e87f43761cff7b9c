package main

import (
	"context"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
)

func diffCommand(p *program) *ffcli.Command {
	return p.remote("diff", remoteCommand{
		usage: "conduit pipelines diff ID [FROM [TO]]",
		short: "Show what a change of a pipeline was: fields, values and effect.",
		long: `FROM and TO are generations, as 'conduit pipelines history' lists them, or the word running. TO
is the latest if left out; without FROM, too, it is the last change. Secrets are shown as ***.

Examples:
  conduit pipelines diff orders
  conduit pipelines diff orders running`,
		arguments: 1, optional: 2,
		exec: func(ctx context.Context, r *remote, args []string) error {
			words := append(args[1:], "", "")
			d, err := r.Diff(ctx, args[0], words[0], words[1])
			if err != nil {
				return err
			}
			if r.json {
				return r.writeJSON(d)
			}
			return r.writeDiff(&d)
		},
	})
}

func (r *remote) writeDiff(d *rest.Diff) error {
	if d.From != nil {
		fmt.Fprintf(r.stdout, "from %s\n", versionWords(d.From))
	}
	fmt.Fprintf(r.stdout, "to   %s\n", versionWords(&d.To))
	switch {
	case d.From == nil:
		return r.say(nil, "the pipeline is new")
	case len(d.Changes) == 0:
		return r.say(nil, "nothing differs")
	}
	var t table
	for _, c := range d.Changes {
		symbol := actionSymbols[c.Action]
		t.add(cell{symbol + " " + c.Path, symbolColors[symbol]}, valueWords(c.Old, c.New), string(c.Effect))
	}
	return t.write(r.stdout, r.paint)
}

func versionWords(v *rest.Version) string {
	words := fmt.Sprintf("generation %d", v.Generation)
	if v.Revision == 0 {
		return words
	}
	return fmt.Sprintf("%s, revision %d, %s, by %s", words, v.Revision, moment(v.At), v.Origin)
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
