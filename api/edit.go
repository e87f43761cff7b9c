package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// origin is the origin of API changes in the history of a pipeline.
const origin = "api"

// errStale means that desired state has changed since the change was computed.
var errStale = errors.New("desired state changed in the meantime")

// edit is a change of a pipeline that the API owns.
type edit struct {
	ID     string            // of the pipeline
	Of     *spec.Declaration // the declaration known to the caller; nil: it is read
	Origin string            // default: Origin
	Live   bool              // may be made while the pipeline runs
	Path   string            // JSON pointer of the resource within the pipeline, for errors
	Apply  func(p *spec.Pipeline) error
	// Current returns the ETag of the resource before the change. nil: there is none.
	Current func(p *spec.Pipeline) string
}

// Edit performs e for the request: it checks and applies the change. If another change was faster, it starts over from
// the new declaration. It returns the resulting declaration.
func (s *desired) Edit(r *http.Request, e *edit) (*spec.Declaration, error) {
	for d := e.Of; ; d = nil {
		var err error
		if d == nil {
			d, err = s.Pipeline(r.Context(), e.ID)
		}
		if err != nil {
			return nil, err
		}
		if err := s.Editable(r, d, e); err != nil {
			return nil, err
		}
		p := d.Pipeline.Clone()
		if err := e.Apply(p); err != nil {
			return nil, err
		}
		err = s.replace(r.Context(), d, p, e)
		if errors.Is(err, errStale) && r.Context().Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		return s.Pipeline(r.Context(), e.ID)
	}
}

// Editable returns the reason why the request may not make e of d, nil if it may.
func (s *desired) Editable(r *http.Request, d *spec.Declaration, e *edit) error {
	live, err := flagParam(r, "live")
	if err != nil {
		return err
	}
	if err := owned(d); err != nil {
		return err
	}
	if e.Current != nil {
		if err := matches(r, e.Current(&d.Pipeline)); err != nil {
			return err
		}
	}
	if !e.Live && !live && s.Active(d) {
		return running(d.Pipeline.ID)
	}
	return nil
}

// running returns the error for a change that requires a stopped pipeline.
func running(id string) *rest.Error {
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "pipeline %q is running", id).
		Suggest("stop it first, or add ?live to change it while it runs")
}

// owned returns an error if d belongs to a file.
func owned(d *spec.Declaration) error {
	if d.Owner.Kind != spec.OwnerFile {
		return nil
	}
	return ownedByFile(d)
}

// ownedByFile returns the error for a change of a pipeline that a file declares.
func ownedByFile(d *spec.Declaration) *rest.Error {
	return rest.Errorf(rest.NotOwner, rest.ReasonOwnedByFile,
		"pipeline %q is declared in %s:%d and cannot be changed over the API",
		d.Pipeline.ID, d.Owner.Path, d.Owner.Line).
		With("file", d.Owner.Path).With("line", strconv.Itoa(d.Owner.Line)).
		Suggest("change the file instead; it takes effect when it is saved")
}

// Active reports whether the pipeline runs, or is about to run.
func (s *desired) Active(d *spec.Declaration) bool {
	state, _ := s.States.State(d.Pipeline.ID)
	switch state.Phase {
	case spec.PhaseStarting, spec.PhaseRunning, spec.PhaseStopping:
		return true
	case spec.PhaseRecovering, spec.PhaseDegraded:
		return false
	}
	return d.Want() == spec.StatusRunning
}

// replace replaces d by p.
func (s *desired) replace(ctx context.Context, d *spec.Declaration, p *spec.Pipeline, e *edit) error {
	spec.Normalize(p)
	field := within(e.Path)
	if err := validate(s.Parser, p, field); err != nil {
		return err
	}
	if err := s.CheckPlugins(ctx, &d.Pipeline, p, field); err != nil {
		return err
	}
	from := origin
	if e.Origin != "" {
		from = e.Origin
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI},
		Origin: from}}}
	return s.Apply(ctx, changes, map[string]*spec.Declaration{p.ID: d})
}

// Apply performs changes if the pipelines in basis are unchanged; nil stands for a pipeline that does not exist.
// Otherwise it returns ErrStale.
func (s *desired) Apply(ctx context.Context, changes *spec.Changes, basis map[string]*spec.Declaration) error {
	expect := map[string]string{}
	for id, was := range basis {
		if expect[id] = ""; was != nil {
			expect[id] = was.Version()
		}
	}
	if claims(changes, basis) {
		s.unique.Lock() // keeps unique values unique
		defer s.unique.Unlock()
		all, err := s.Declared(ctx)
		if err != nil {
			return err
		}
		if err := unique(changes, all); err != nil {
			return err
		}
	}
	err := s.ApplyIf(ctx, changes, expect)
	if errors.Is(err, spec.ErrConflict) {
		return errStale
	}
	return err
}

// claims reports whether changes give a pipeline a new name or a new connector.
func claims(changes *spec.Changes, basis map[string]*spec.Declaration) bool {
	return slices.ContainsFunc(changes.Declare, func(c spec.Declare) bool {
		was := basis[c.Pipeline.ID]
		return was == nil || was.Pipeline.Name != c.Pipeline.Name ||
			slices.ContainsFunc(c.Pipeline.Connectors, func(one spec.Connector) bool {
				return connectorIn(&was.Pipeline, was.Pipeline.QualifiedID(one.ID)) < 0
			})
	})
}

// unique returns an error if changes would give two pipelines the same name, or two connectors the same qualified id.
// Names and ids that a pipeline already has are not checked: a file may have given them to another pipeline since.
func unique(changes *spec.Changes, all []spec.Declaration) error {
	have := map[string]*spec.Pipeline{}
	for i := range all {
		have[all[i].Pipeline.ID] = &all[i].Pipeline
	}
	will := maps.Clone(have)
	for i := range changes.Declare {
		will[changes.Declare[i].Pipeline.ID] = &changes.Declare[i].Pipeline
	}
	ids := slices.Sorted(maps.Keys(will))
	for i := range changes.Declare {
		p := &changes.Declare[i].Pipeline
		for _, id := range ids {
			if id == p.ID {
				continue
			}
			if err := distinct(p, have[p.ID], will[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// distinct returns an error if p has a name or a connector of other that old did not have. old is nil if p is new.
func distinct(p, old, other *spec.Pipeline) error {
	if other.Name == p.Name && (old == nil || old.Name != p.Name) {
		return rest.Errorf(rest.AlreadyExists, rest.ReasonPipelineNameExists, "pipeline name %q exists already",
			p.Name).
			With("configPath", "config.name").Suggest("choose another name")
	}
	for i := range p.Connectors {
		id := p.QualifiedID(p.Connectors[i].ID)
		if connectorIn(other, id) >= 0 && (old == nil || connectorIn(old, id) < 0) {
			return rest.Errorf(rest.AlreadyExists, rest.ReasonConnectorExists, "connector %q exists already", id).
				With("configPath", "id").Suggest("choose another id")
		}
	}
	return nil
}

// identify returns the id for a new resource: the chosen id, without the prefix of its parent, or a generated one.
func identify(chosen, parent string) string {
	if chosen == "" {
		return uuid.NewString()
	}
	if parent != "" {
		chosen = strings.TrimPrefix(chosen, parent+":")
	}
	return chosen
}

// mismatch returns the error for a field that contradicts the path.
func mismatch(field, have, want string) error {
	return fieldError(spec.CodeInvalid, field, fmt.Sprintf("%s is %q here and %q in the path; it cannot be changed",
		field, want, have))
}
