package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec"
)

func (p *program) exportCommand() *ffcli.Command {
	return p.remote("export", remoteCommand{
		usage: "conduit pipelines export ID",
		short: "Print a pipeline as a pipeline file.",
		long: `Secrets are *** in it: replace them, best by references such as ${VAR}.

Example:
  conduit pipelines export orders > pipelines/orders.yaml`,
		arguments: 1,
		exec: func(ctx context.Context, r *remote, args []string) error {
			file, err := r.Export(ctx, args[0])
			if err != nil {
				return err
			}
			if !r.json {
				_, err = r.stdout.Write(file)
				return err
			}
			pipelines := []spec.Pipeline{}
			for _, parsed := range spec.ParseFile(args[0], file).Pipelines {
				pipelines = append(pipelines, parsed.Pipeline)
			}
			return r.writeJSON(pipelines)
		},
	})
}

func (p *program) adoptCommand() *ffcli.Command {
	return p.remote("adopt", remoteCommand{
		usage: "conduit pipelines adopt ID [FILE]",
		short: "Hand a pipeline of the API over to the file that declares it.",
		long: `Nothing restarts, unless the file declares something else. FILE is relative to pipelines.path
and only needed when several files declare the pipeline.

Example:
  conduit pipelines export orders > pipelines/orders.yaml
  conduit pipelines adopt orders`,
		arguments: 1, optional: 1,
		exec: func(ctx context.Context, r *remote, args []string) error {
			path := ""
			if len(args) > 1 {
				path = args[1]
			}
			if _, _, err := r.Adopt(ctx, args[0], path); err != nil {
				return err
			}
			status, err := r.Status(ctx, args[0])
			if err != nil {
				return err
			}
			return r.say(status, "%s belongs to %s", args[0], ownerWords(status.Owner))
		},
	})
}
