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

const mediaYAML = "application/yaml"

// export answers with a pipeline file. Secrets are left out of it as they are elsewhere.
func (s *Server) export(w http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", tag(d.Pipeline))
	write(w, http.StatusOK, mediaYAML, exported(&d.Pipeline))
	return nil, nil
}

// exported returns p as a pipeline file, which says what it lacks.
func exported(p *spec.Pipeline) []byte {
	shown := redacted(p)
	file, lacks := spec.Marshal(shown), false
	eachSettings(&shown, func(_, _ string, settings *map[string]string) {
		for _, value := range *settings {
			lacks = lacks || value == rest.Redacted
		}
	})
	if lacks {
		file = append([]byte("# "+rest.Redacted+" stands for a secret that is left out: replace it by the value or a reference such as ${file:/path}.\n"), file...)
	}
	return file
}

// importFile declares the pipelines of a pipeline file, in YAML or JSON, all or none.
func (s *Server) importFile(w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	file := spec.ParseExport(body)
	if err := problemsError(file.Problems); err != nil {
		return nil, err
	}
	live, err := flag(r, "live")
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
		d, err := s.pipeline(r.Context(), p.Pipeline.ID)
		if err != nil {
			return nil, err
		}
		w.Header().Add(rest.HeaderGeneration, strconv.FormatInt(d.Generation, 10))
		list = append(list, s.shown(d))
	}
	return list, nil
}

func (s *Server) importOnce(r *http.Request, file *spec.File, live bool) error {
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
		err = keepAll(p, old, field)
		if err == nil && d != nil && !live && s.active(d) && len(spec.Diff(old, p)) > 0 {
			return running(p.ID)
		}
		if err == nil {
			err = s.checkPlugins(r.Context(), old, p, field)
		}
		wrong = together(wrong, err)
		basis[p.ID] = d
		changes.Declare = append(changes.Declare, spec.Declare{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI}, Origin: origin + ": import"})
	}
	if wrong != nil {
		return wrong
	}
	return s.apply(r.Context(), changes, basis)
}

// fileField names fields of the pipeline with this number in a pipeline file.
func fileField(i int) naming {
	return func(pointer string) string {
		return follow("pipelines["+strconv.Itoa(i)+"]", strings.TrimPrefix(pointer, "/"))
	}
}

// replaceable returns the declaration of the API that a whole pipeline replaces, nil if there is none.
func (s *Server) replaceable(r *http.Request, id string) (*spec.Declaration, error) {
	d, err := s.pipeline(r.Context(), id)
	if err != nil {
		return nil, s.vacant(r, id)
	}
	return d, owned(d)
}

// problemsError returns an error that tells all errors of a file.
func problemsError(problems []spec.Problem) error {
	var e *rest.Error
	for _, p := range problems {
		if p.Severity != spec.SeverityError {
			continue
		}
		field, message := follow("", strings.TrimPrefix(p.Path, "/")), fmt.Sprintf("line %d: %s", p.Line, p.Message)
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
