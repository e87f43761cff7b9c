package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/spec"
)

// check returns a check of the plugins and settings of a declared pipeline, with the values
// that they have in resolved.
func (r *Runner) check(resolved *spec.Pipeline) func(*spec.Pipeline) []spec.Problem {
	return func(declared *spec.Pipeline) []spec.Problem {
		p := *resolved
		p.Connectors = nil
		for _, c := range declared.Connectors { // in the order of the file
			i := slices.IndexFunc(resolved.Connectors, func(o spec.Connector) bool { return o.ID == c.ID })
			p.Connectors = append(p.Connectors, resolved.Connectors[i])
		}
		return r.Catalog.Check(context.Background(), &p)
	}
}

// located puts before err, which keeps d from running, the places in its file of what check
// finds wrong.
func (r *Runner) located(d *spec.Declaration, err error, check func(*spec.Pipeline) []spec.Problem) error {
	if d.Owner.Kind != spec.OwnerFile {
		return err
	}
	path := filepath.Join(r.Files, filepath.FromSlash(d.Owner.Path))
	if info, serr := os.Stat(r.Files); serr == nil && !info.IsDir() {
		path = r.Files
	}
	data, rerr := reference.ReadFile(path)
	if rerr != nil {
		return err
	}
	parsed, digest := spec.ParseFile(d.Owner.Path, []byte(data)), spec.Digest(&d.Pipeline)
	var places []string
	for i := range parsed.Pipelines {
		p := &parsed.Pipelines[i]
		if p.Pipeline.ID != d.Pipeline.ID || spec.Digest(&p.Pipeline) != digest {
			continue // the file says something else by now
		}
		for _, problem := range check(&p.Pipeline) {
			problem = p.Locate(problem, d.Owner.Path)
			places = append(places, fmt.Sprintf("%s:%d:%d", problem.File, problem.Line, problem.Column))
		}
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(places, ", "), err)
}

func joined(problems []spec.Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.Message))
	}
	return errors.Join(errs...)
}
