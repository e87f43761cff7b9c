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

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/pointer"
)

// origin is who changed a pipeline, in its history.
const origin = "api"

// errStale means that desired state is no longer what a change was made of.
var errStale = errors.New("desired state changed in the meantime")

// edit is a change of one pipeline that the API owns.
type edit struct {
	id     string // of the pipeline
	origin string // default: origin
	live   bool   // may be made while the pipeline runs
	prefix string // JSON pointer of the resource within the pipeline, for errors
	apply  func(p *spec.Pipeline) error
	// current returns the ETag of the resource before the change. nil: there is none.
	current func(p *spec.Pipeline) string
}

// edit performs e for the request: it is checked, and then applied unless somebody was
// faster, in which case it starts over with what they left. The answer will tell the
// generation that it led to.
func (s *Server) edit(w http.ResponseWriter, r *http.Request, e *edit) (*spec.Declaration, error) {
	for {
		d, err := s.pipeline(r.Context(), e.id)
		if err != nil {
			return nil, err
		}
		if err := s.editable(r, d, e); err != nil {
			return nil, err
		}
		p := d.Pipeline.Clone()
		if err := e.apply(p); err != nil {
			return nil, err
		}
		err = s.replace(r.Context(), d, p, e)
		if errors.Is(err, errStale) && r.Context().Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		if d, err = s.pipeline(r.Context(), e.id); err == nil {
			tell(w, d)
		}
		return d, err
	}
}

func (s *Server) editable(r *http.Request, d *spec.Declaration, e *edit) error {
	live, err := flag(r, "live")
	if err != nil {
		return err
	}
	if err := owned(d); err != nil {
		return err
	}
	if e.current != nil {
		if err := matches(r, e.current(&d.Pipeline)); err != nil {
			return err
		}
	}
	if !e.live && !live && s.active(d) {
		return running(d.Pipeline.ID)
	}
	return nil
}

func running(id string) *rest.Error {
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "pipeline %q is running", id).
		Suggest("stop it first, or add ?live to have it go on with the change")
}

// owned returns an error if d belongs to a file.
func owned(d *spec.Declaration) error {
	if d.Owner.Kind != spec.OwnerFile {
		return nil
	}
	return ownedByFile(d)
}

func ownedByFile(d *spec.Declaration) *rest.Error {
	return rest.Errorf(rest.NotOwner, rest.ReasonOwnedByFile, "pipeline %q is declared in %s:%d and cannot be changed over the API",
		d.Pipeline.ID, d.Owner.Path, d.Owner.Line).
		With("file", d.Owner.Path).With("line", strconv.Itoa(d.Owner.Line)).
		Suggest("change the file instead; it takes effect when it is saved")
}

// active reports whether the pipeline runs, or is about to.
func (s *Server) active(d *spec.Declaration) bool {
	state, _ := s.Observed.State(d.Pipeline.ID)
	switch state.Phase {
	case spec.PhaseStarting, spec.PhaseRunning, spec.PhaseStopping:
		return true
	case spec.PhaseRecovering, spec.PhaseDegraded:
		return false
	}
	return d.Want() == spec.StatusRunning
}

// replace makes p follow d.
func (s *Server) replace(ctx context.Context, d *spec.Declaration, p *spec.Pipeline, e *edit) error {
	spec.Normalize(p)
	field := within(e.prefix)
	if err := validate(p, field); err != nil {
		return err
	}
	if err := s.checkPlugins(ctx, &d.Pipeline, p, field); err != nil {
		return err
	}
	from := origin
	if e.origin != "" {
		from = e.origin
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI}, Origin: from}}}
	return s.apply(ctx, changes, map[string]*spec.Declaration{p.ID: d})
}

// apply performs changes if the pipelines in basis, nil standing for none, are still
// what they were. Otherwise it returns errStale.
func (s *Server) apply(ctx context.Context, changes *spec.Changes, basis map[string]*spec.Declaration) error {
	s.commit.Lock() // so that what is unique stays so
	defer s.commit.Unlock()
	expect := map[string]string{}
	for id, was := range basis {
		if expect[id] = ""; was != nil {
			expect[id] = was.Version()
		}
	}
	all, err := s.declared(ctx)
	if err != nil {
		return err
	}
	if err := unique(changes, all); err != nil {
		return err
	}
	err = s.Desired.ApplyIf(ctx, changes, expect)
	if errors.Is(err, spec.ErrConflict) {
		return errStale
	}
	return err
}

// unique returns an error if changes would give two pipelines the same name, or two
// connectors the same qualified id. Names and ids that a pipeline has already are no
// change: a file may have given them to another one since.
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

// distinct returns an error if p has a name or a connector that other has, and had it
// not before, as old, which is nil if it is new.
func distinct(p, old, other *spec.Pipeline) error {
	if other.Name == p.Name && (old == nil || old.Name != p.Name) {
		return rest.Errorf(rest.AlreadyExists, rest.ReasonPipelineNameExists, "pipeline name %q exists already", p.Name).
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

// naming returns the path in a request of what a JSON pointer leads to in the pipeline.
type naming func(pointer string) (path string)

// validate returns the first error of p, and all of them as violations.
func validate(p *spec.Pipeline, field naming) error {
	var e *rest.Error
	for _, problem := range spec.Validate(p) {
		if problem.Severity != spec.SeverityError {
			continue
		}
		path := field(problem.Path)
		if e == nil {
			e = fieldError(problem.Code, path, problem.Message)
			continue
		}
		e.Violations = append(e.Violations, rest.Violation{Field: path, Description: problem.Message})
	}
	if e == nil {
		return nil
	}
	return e
}

// renamed are the fields that requests call otherwise than pipeline files.
var renamed = map[string]string{
	"name": "config.name", "description": "config.description", "settings": "config.settings", "workers": "config.workers",
	"window-size": "windowSize", "window-nack-threshold": "windowNackThreshold",
}

// within names fields of requests about the resource that the pointer prefix leads to.
func within(prefix string) naming {
	return func(at string) string {
		tokens, inside := strings.CutPrefix(at, prefix+"/")
		first, more, _ := strings.Cut(strings.TrimPrefix(tokens, "/"), "/")
		path, ok := renamed[first]
		if !ok || !inside || prefix == dlqPrefix && first == "settings" {
			path = join("", pointer.Unescape(first))
		}
		return follow(path, more)
	}
}

// follow returns the path of what the tokens of a JSON pointer lead to from path.
func follow(path, tokens string) string {
	if tokens == "" {
		return path
	}
	for token := range strings.SplitSeq(tokens, "/") {
		if _, err := strconv.Atoi(token); err == nil {
			path += "[" + token + "]"
			continue
		}
		path = join(path, pointer.Unescape(token))
	}
	return path
}

// checkPlugins has the plugins accept what p changes about connectors and the
// dead-letter queue of old, nil for none. The error tells all that is wrong.
func (s *Server) checkPlugins(ctx context.Context, old, p *spec.Pipeline, field naming) (wrong error) {
	for i := range p.Connectors {
		c, at := &p.Connectors[i], "/connectors/"+strconv.Itoa(i)
		if j := connectorIn(old, p.QualifiedID(c.ID)); j >= 0 {
			if was := &old.Connectors[j]; was.Plugin == c.Plugin && was.Type == c.Type && maps.Equal(was.Settings, c.Settings) {
				continue
			}
		}
		wrong = together(wrong, s.checkPlugin(ctx, c.Type, c.Plugin, c.Settings, field(at+"/plugin"), field(at+"/settings")))
	}
	if q := &p.DLQ; q.Plugin != old.DLQ.Plugin || !maps.Equal(q.Settings, old.DLQ.Settings) {
		wrong = together(wrong, s.checkPlugin(ctx, spec.TypeDestination, q.Plugin, q.Settings, field(dlqPrefix+"/plugin"), field(dlqPrefix+"/settings")))
	}
	return wrong
}

// together returns the first of two errors, with what is wrong by the second as well.
func together(first, second error) error {
	a, ok := first.(*rest.Error)
	b, alike := second.(*rest.Error)
	switch {
	case first == nil:
		return second
	case second == nil || !ok || !alike:
		return first
	}
	for _, e := range []*rest.Error{a, b} {
		if len(e.Violations) == 0 {
			e.Violations = []rest.Violation{{Field: e.Metadata["configPath"], Description: e.Message}}
		}
	}
	a.Violations = append(a.Violations, b.Violations...)
	return a
}

// checkPlugin has a plugin accept settings. pluginField and settingsField are where they
// are in the request.
func (s *Server) checkPlugin(ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string, pluginField, settingsField string) error {
	err := s.Plugins.Check(ctx, typ, plugin, settings)
	hide := func(text string) string {
		for name, value := range settings {
			if secret(name, value) {
				text = rest.Hide(text, value)
			}
		}
		return text
	}
	switch wrong := settingErrors(err); {
	case err == nil:
		return nil
	case errors.Is(err, ErrPluginNotFound):
		return rest.Errorf(rest.NotFound, rest.ReasonPluginNotFound, "%v", err).With("configPath", pluginField).
			Suggest("GET /v1/connectors/plugins lists the plugins there are")
	case len(wrong) > 0:
		e := rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid, "invalid connector config: %s", hide(err.Error()))
		for _, w := range wrong {
			e.Violations = append(e.Violations, rest.Violation{Field: join(settingsField, w.Setting), Description: hide(w.Message)})
		}
		return e.With("configPath", e.Violations[0].Field)
	case ctx.Err() != nil:
		return err
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonConnectorRefused, "invalid connector config: %s", hide(err.Error())).With("configPath", settingsField)
}

// settingErrors returns every SettingError that err is made of.
func settingErrors(err error) []*SettingError {
	switch e := err.(type) {
	case *SettingError:
		return []*SettingError{e}
	case interface{ Unwrap() []error }:
		var all []*SettingError
		for _, one := range e.Unwrap() {
			all = append(all, settingErrors(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		return settingErrors(e.Unwrap())
	}
	return nil
}

// identify returns the id that a resource gets: the chosen one, without the id of its
// parent before it, or a new one.
func identify(chosen, parent string) string {
	if chosen == "" {
		return newID()
	}
	if parent != "" {
		chosen = strings.TrimPrefix(chosen, parent+":")
	}
	return chosen
}

func mismatch(field, have, want string) error {
	return fieldError(spec.CodeInvalid, field, fmt.Sprintf("%s is %q here and %q in the path; it cannot be changed", field, want, have))
}
