package cli

import (
	"context"
	"flag"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec"
)

func exportCommand(p *Program) *ffcli.Command {
	var revision int64
	return p.Remote("export", RemoteCommand{
		Usage: "conduit pipelines export ID [--revision N]",
		Short: "Print a pipeline as a pipeline file.",
		Long: `Secrets are shown as ***: replace them by their values or by references such as ${file:/path}.
A file that contains *** is not accepted. --revision prints an earlier revision, also of a deleted
pipeline; 'conduit pipelines history ID' lists revisions.

Examples:
  conduit pipelines export orders > pipelines/orders.yaml
  conduit pipelines export orders --revision 4`,
		Arguments: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.Int64Var(&revision, "revision", 0, "print revision `N`")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			file, err := export(ctx, r, args[0], revision)
			if err != nil {
				return err
			}
			if !r.JSON {
				_, err = r.Document().Write(file)
				return err
			}
			pipelines := []spec.Pipeline{}
			for _, parsed := range spec.ParseExport(file).Pipelines {
				pipelines = append(pipelines, parsed.Pipeline)
			}
			return r.WriteJSON(pipelines)
		},
	})
}

// export returns the pipeline as a file, or a revision if its number is not 0.
func export(ctx context.Context, r *Remote, id string, revision int64) ([]byte, error) {
	if revision == 0 {
		return r.Export(ctx, id)
	}
	return r.ExportRevision(ctx, id, revision)
}

func adoptCommand(p *Program) *ffcli.Command {
	owner := string(spec.OwnerFile)
	return p.Remote("adopt", RemoteCommand{
		Usage: "conduit pipelines adopt ID [FILE]",
		Short: "Transfer a pipeline to the file that declares it, or to the API.",
		Long: `The pipeline restarts only if the file declares a different version. FILE is relative to
pipelines.path and only required when several files declare the pipeline. With --owner api the API
becomes the owner; then remove the pipeline from its file.

A file must contain secrets, too: replace each *** of an export by the secret or by a
reference such as ${file:/path}. Until then the file has an error, and the running version stays.

Examples:
  conduit pipelines export orders > orders.yaml
  sed -i 's|password: .*|password: ${file:/etc/conduit/orders-password}|' orders.yaml
  mv orders.yaml pipelines/
  conduit pipelines adopt orders
  conduit pipelines adopt orders --owner api`,
		Arguments: 1, Optional: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&owner, "owner", owner, "new `OWNER`: file or api")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			id, path := args[0], strings.Join(args[1:], "")
			var err error
			switch spec.OwnerKind(owner) {
			case spec.OwnerFile:
				_, _, err = r.Adopt(ctx, id, path)
			case spec.OwnerAPI:
				if path != "" {
					return Invalidf("unexpected argument: %s; --owner api takes no file", path)
				}
				_, _, err = r.Release(ctx, id)
			default:
				return Invalidf("--owner must be file or api, not %q", owner)
			}
			if err != nil {
				return err
			}
			status, err := r.Status(ctx, id)
			if err != nil {
				return err
			}
			return r.Say(status, "%s belongs to %s", id, ownerWords(status.Owner))
		},
	})
}
