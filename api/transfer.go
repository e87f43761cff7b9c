package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// mediaYAML is the media type of pipeline files in YAML.
const mediaYAML = "application/yaml"

// transferHandlers writes pipelines as files, and reads them.
type transferHandlers struct{ shared }

// Export answers with a pipeline file. If the request names a revision, the file describes it, also for a deleted
// pipeline. Secrets are redacted as everywhere else.
func (s *transferHandlers) Export(w http.ResponseWriter, r *http.Request) (any, error) {
	if wanted := r.URL.Query().Get("revision"); wanted != "" {
		return s.exportRevision(w, r, wanted)
	}
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", etag(d.Pipeline))
	writeAnswer(w, http.StatusOK, mediaYAML, exported(s.view(r), &d.Pipeline))
	return nil, nil
}

func (s *transferHandlers) exportRevision(w http.ResponseWriter, r *http.Request, wanted string) (any, error) {
	id := r.PathValue("id")
	number, err := strconv.ParseInt(wanted, 10, 64)
	if err != nil {
		return nil, fieldError(spec.CodeInvalid, "revision",
			fmt.Sprintf("revision must be a number, not %q", wanted))
	}
	revisions, err := s.Desired.History(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if len(revisions) == 0 {
		if _, err := s.Desired.Pipeline(r.Context(), id); err != nil {
			return nil, err
		}
	}
	p, err := revisionOf(revisions, id, number)
	if err != nil {
		return nil, err
	}
	writeAnswer(w, http.StatusOK, mediaYAML, exported(s.view(r), p))
	return nil, nil
}

// exported returns p as a pipeline file. A header comment explains the placeholder of redacted secrets, if there are
// any.
func exported(view *view, p *spec.Pipeline) []byte {
	shown := view.Pipeline(p)
	file, lacks := spec.Marshal(shown), false
	eachSettings(&shown, func(_, _ string, settings *map[string]string) {
		for _, value := range *settings {
			lacks = lacks || value == spec.Redacted
		}
	})
	if lacks {
		file = append([]byte("# "+spec.Redacted+" stands for a redacted secret: replace it by the value or a "+
			"reference such as ${file:/path}.\n"), file...)
	}
	return file
}

// Import declares the pipelines of a pipeline file, in YAML or JSON, all or none.
func (s *transferHandlers) Import(w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	file := s.Desired.Parser.Export(body)
	if err := problemsError(file.Problems); err != nil {
		return nil, err
	}
	live, err := flagParam(r, "live")
	if err != nil {
		return nil, err
	}
	for {
		err := s.importOnce(r, &file, live)
		if errors.Is(err, errStale) && r.Context().Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	list := []rest.Pipeline{}
	for _, p := range file.Pipelines {
		d, err := s.Desired.Pipeline(r.Context(), p.Pipeline.ID)
		if err != nil {
			return nil, err
		}
		w.Header().Add(rest.HeaderGeneration, strconv.FormatInt(d.Generation, 10))
		list = append(list, s.shown(d))
	}
	return list, nil
}

func (s *transferHandlers) importOnce(r *http.Request, file *spec.File, live bool) error {
	changes, basis := &spec.Changes{}, map[string]*spec.Declaration{}
	var wrong error
	for i, parsed := range file.Pipelines {
		p, field := parsed.Pipeline.Clone(), fileField(i)
		d, err := s.replaceable(r, p.ID)
		if err != nil {
			return err
		}
		old := &spec.Pipeline{}
		if d != nil {
			old = &d.Pipeline
		}
		err = keepAllSecrets(p, old, field)
		if err == nil && d != nil && !live && s.Desired.Active(d) && len(spec.Diff(old, p)) > 0 {
			return running(p.ID)
		}
		if err == nil {
			err = s.Desired.CheckPlugins(r.Context(), old, p, field)
		}
		wrong = joinErrors(wrong, err)
		basis[p.ID] = d
		changes.Declare = append(changes.Declare, spec.Declare{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI},
			Origin: origin + ": import"})
	}
	if wrong != nil {
		return wrong
	}
	return s.Desired.Apply(r.Context(), changes, basis)
}

// fileField names the fields of pipeline i in a pipeline file.
func fileField(i int) naming {
	return func(pointer string) string {
		return followPointer("pipelines["+strconv.Itoa(i)+"]", strings.TrimPrefix(pointer, "/"))
	}
}

// problemsError returns an error with all errors of a file.
func problemsError(problems []spec.Problem) error {
	var e *rest.Error
	for _, p := range problems {
		if p.Severity != spec.SeverityError {
			continue
		}
		field, message := followPointer("", strings.TrimPrefix(p.Path, "/")),
			fmt.Sprintf("line %d: %s", p.Line, p.Message)
		if e == nil {
			e = rest.Errorf(rest.InvalidArgument, p.Code, "%s", message).With("configPath", field)
		}
		e.Violations = append(e.Violations, rest.Violation{Field: field, Description: message})
	}
	if e == nil {
		return nil
	}
	return e
}
