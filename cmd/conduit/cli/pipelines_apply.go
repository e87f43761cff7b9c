package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

func importCommand(p *Program) *ffcli.Command {
	var live bool
	return p.Remote("import", RemoteCommand{
		Usage: "conduit pipelines import FILE",
		Short: "Declare the pipelines of a file over the API.",
		Long: `Accepts the output of 'conduit pipelines export'; *** keeps the secret of an existing pipeline.
The file is read once. To apply later changes of the file, put it into the directory of pipeline files.

Example:
  conduit pipelines import orders.yaml`,
		Arguments: 1,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&live, "live", false, "change running pipelines, too")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			r.About("") // the file may declare several
			file, err := watch.ReadNamed(args[0])
			if err != nil {
				return Invalidf("cannot read pipelines to import from %s: %v", args[0], err)
			}
			var options []client.Option
			if live {
				options = append(options, client.Live())
			}
			list, err := r.Import(ctx, file, options...)
			if err != nil {
				r.About(rejectionOf(file, err))
				return err
			}
			if r.JSON {
				return r.WriteJSON(list)
			}
			for _, one := range list {
				fmt.Fprintf(r.Stdout, "%s is declared\n", one.ID)
			}
			return nil
		},
	})
}

// rejectionOf returns the id of the pipeline in the file to which an error refers, "" when it names none.
func rejectionOf(file []byte, err error) string {
	for _, one := range spec.ParseExport(file).Pipelines {
		if id := one.Pipeline.ID; strings.Contains(err.Error(), fmt.Sprintf("pipeline %q ", id)) {
			return id
		}
	}
	return ""
}

func applyCommand(p *Program) *ffcli.Command {
	return p.Remote("apply", RemoteCommand{
		Usage: "conduit pipelines apply FILE",
		Short: "Apply a file to pipelines of the API, and print the changes.",
		Long: `Plans and applies each pipeline of the file, running or stopped. If a file in the directory of
pipeline files declares the pipeline, the command fails: change that file instead.

Example:
  conduit pipelines apply orders.yaml`,
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			text, err := watch.ReadNamed(args[0])
			if err != nil {
				return Invalidf("cannot read pipelines to apply from %s: %v", args[0], err)
			}
			file := spec.ParseExport(text)
			for i := range file.Problems {
				file.Problems[i].File = args[0]
			}
			if HasErrors(file.Problems) {
				r.ProblemsTo(r.Stderr, file.Problems)
				return ErrReported
			}
			return applyAll(ctx, r, file.Pipelines)
		},
	})
}

func applyAll(ctx context.Context, r *Remote, all []spec.Parsed) error {
	diffs := []rest.DocumentDiff{}
	for i := range all {
		r.About(all[i].Pipeline.ID)
		doc := rest.DocumentOf(&all[i].Pipeline)
		planned, err := r.PlanDocument(ctx, doc)
		if err != nil {
			return err
		}
		done, err := r.ApplyDocument(ctx, doc, planned.Hash)
		if err != nil {
			return err
		}
		diffs = append(diffs, done)
	}
	if r.JSON {
		return r.WriteJSON(diffs)
	}
	for _, d := range diffs {
		if len(d.Changes) == 0 {
			fmt.Fprintf(r.Stdout, "%s is unchanged\n", d.PipelineID)
		}
		for _, c := range d.Changes {
			fmt.Fprintln(r.Stdout, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", c.Resource, c.ID, c.Action,
				strings.Join(c.ConfigPaths, ", "))))
		}
	}
	return nil
}

func deleteCommand(p *Program) *ffcli.Command {
	var selected LabelSelector
	var stop bool
	return p.Remote("delete", RemoteCommand{
		Usage: "conduit pipelines delete ID|-l LABELS",
		Short: "Delete pipelines of the API, with their positions.",
		Long: `Their connectors clean up at once. To delete a running pipeline, add --stop, which stops it
first. To delete a pipeline of a file, remove it from the file.

Examples:
  conduit pipelines delete orders
  conduit pipelines delete --stop orders
  conduit pipelines delete -l team=shop`,
		Optional: 1,
		Flags: func(fs *flag.FlagSet) {
			selectFlag(fs, &selected)
			fs.BoolVar(&stop, "stop", false, "first stop running pipelines, after in-flight records are settled")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			return each(ctx, r, args, selected, func(id string) error {
				if err := halt(ctx, r, id, stop); err != nil {
					return err
				}
				if err := deleteWhole(ctx, r, id); err != nil {
					return err
				}
				return r.Say(map[string]string{"deleted": id}, "%s is deleted", id)
			})
		},
	})
}

// halt stops a running pipeline of the API, or refuses it without stop.
func halt(ctx context.Context, r *Remote, id string, stop bool) error {
	s, err := r.Status(ctx, id)
	switch {
	case err != nil:
		return err
	case s.Owner.Kind != spec.OwnerAPI || s.Withdrawn != nil || Stopped(&s):
		return nil
	case !stop:
		return Invalidf("pipeline %q is not stopped: 'conduit pipelines delete --stop %s' stops and deletes it", id, id)
	}
	return r.StopPipeline(ctx, id)
}

// deleteWhole deletes a pipeline and its contents: the API deletes only an empty pipeline.
func deleteWhole(ctx context.Context, r *Remote, id string) error {
	connectors, err := r.Connectors(ctx, id)
	if err != nil {
		return err
	}
	for _, c := range connectors {
		if err := r.DeleteConnector(ctx, c.ID); err != nil {
			return err
		}
	}
	processors, err := r.Processors(ctx, id)
	if err != nil {
		return err
	}
	for _, one := range processors {
		if err := r.DeleteProcessor(ctx, one.ID); err != nil {
			return err
		}
	}
	return r.DeletePipeline(ctx, id)
}
