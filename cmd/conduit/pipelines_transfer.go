package main

import (
	"context"
	"flag"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec"
)

func exportCommand(p *program) *ffcli.Command {
	return p.remote("export", remoteCommand{
		usage: "conduit pipelines export ID",
		short: "Print a pipeline as a pipeline file.",
		long: `Secrets are *** in it: replace them by their values or by references such as ${file:/path}.
A file in which something is *** is not accepted.

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
			for _, parsed := range spec.ParseExport(file).Pipelines {
				pipelines = append(pipelines, parsed.Pipeline)
			}
			return r.writeJSON(pipelines)
		},
	})
}

func adoptCommand(p *program) *ffcli.Command {
	owner := string(spec.OwnerFile)
	return p.remote("adopt", remoteCommand{
		usage: "conduit pipelines adopt ID [FILE]",
		short: "Hand a pipeline over to the file that declares it, or to the API.",
		long: `Nothing restarts, unless the file declares something else. FILE is relative to pipelines.path
and only needed when several files declare the pipeline. With --owner api the API takes it over
from its file; then remove it from the file.

A file declares everything, secrets too: replace each *** of an export by the secret or by a
reference such as ${file:/path}. Until then the file has an error, and what runs stays as it is.

Examples:
  conduit pipelines export orders > orders.yaml
  sed -i 's|password: .*|password: ${file:/etc/conduit/orders-password}|' orders.yaml
  mv orders.yaml pipelines/
  conduit pipelines adopt orders
  conduit pipelines adopt orders --owner api`,
		arguments: 1, optional: 1,
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&owner, "owner", owner, "`OWNER` that takes it over: file or api")
		},
		exec: func(ctx context.Context, r *remote, args []string) error {
			id, path := args[0], strings.Join(args[1:], "")
			var err error
			switch spec.OwnerKind(owner) {
			case spec.OwnerFile:
				_, _, err = r.Adopt(ctx, id, path)
			case spec.OwnerAPI:
				if path != "" {
					return invalidf("unexpected argument: %s; the API has no files", path)
				}
				_, _, err = r.Release(ctx, id)
			default:
				return invalidf("--owner must be file or api, not %q", owner)
			}
			if err != nil {
				return err
			}
			status, err := r.Status(ctx, id)
			if err != nil {
				return err
			}
			return r.say(status, "%s belongs to %s", id, ownerWords(status.Owner))
		},
	})
}
