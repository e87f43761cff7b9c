package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// selectFlag defines the flag that selects pipelines by their labels.
func selectFlag(fs *flag.FlagSet, s *LabelSelector) {
	fs.Var(s, "l", "only pipelines with these `LABELS`: key=value, key!=value, key or !key, separated by commas")
}

// each calls a function for the pipeline that the arguments name, or for each selected pipeline. It continues after
// failures.
func each(ctx context.Context, r *Remote, args []string, selected LabelSelector,
	do func(id string) error) error {
	switch {
	case len(args) == 1 && selected == nil:
		return do(args[0])
	case len(args) == 1:
		return Invalidf("give either a pipeline or labels, not both")
	case selected == nil:
		return Invalidf("no pipeline given: give an id, or select pipelines by labels: -l key=value")
	}
	list, err := r.Pipelines(ctx)
	if err != nil {
		return err
	}
	none := true
	var failed error
	for i := range list {
		if !selected.Matches(list[i].Config.Labels) {
			continue
		}
		none = false
		r.About(list[i].ID)
		if err := do(list[i].ID); err != nil {
			failed = r.Explain(err)
			fmt.Fprintf(r.Stderr, "conduit: %s: %s\n", list[i].ID, terminal.Clean(failed.Error()))
		}
	}
	if none {
		return Invalidf("no pipeline matches the labels")
	}
	if failed != nil {
		return &reported{failed}
	}
	return nil
}

// reported is an error that was printed already.
type reported struct{ error }

// Error implements error.
func (e *reported) Error() string { return "" }

// Unwrap implements the interface that errors.As uses, for the exit code.
func (e *reported) Unwrap() error { return e.error }
