package cli

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/schemas"
)

func schemaCommand(p *Program) *ffcli.Command {
	flags := NewFlags("schema")
	return &ffcli.Command{
		Name:       "schema",
		ShortUsage: "conduit schema [pipeline|config]",
		ShortHelp:  "Print the JSON Schema of pipeline files or of conduit.yaml.",
		LongHelp: `With the schema, an editor completes and checks the file as you type.

Example:
  conduit schema pipeline > pipeline.schema.json`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			words, err := Positional(flags, args, 1)
			if err != nil {
				return err
			}
			text := schemas.PipelineFile.Source()
			if len(words) == 1 && words[0] == "config" {
				text = config.Schema()
			} else if len(words) == 1 && words[0] != "pipeline" {
				return Invalidf("unknown schema %s; use pipeline or config", words[0])
			}
			_, err = p.Document().Write(text)
			return err
		},
	}
}
