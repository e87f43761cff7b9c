package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// ownerHandlers changes the owners of pipelines.
type ownerHandlers struct{ shared }

// Adopt hands a pipeline over to the file that declares it, or to the API, without a
// restart unless the new owner declares something else.
func (s *ownerHandlers) Adopt(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Adopt
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	owner, err := s.newOwner(r, d, &body)
	if err != nil {
		return nil, err
	}
	if err := matches(r, etag(d.Pipeline)); err != nil {
		return nil, err
	}
	by, p := cmp.Or(owner.Path, "the API"), d.Pipeline
	if owner.Kind == spec.OwnerAPI {
		p.Status = d.Want() // only a status declared by a file can be overridden
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: owner, Origin: "adopted by " + by}},
		Events: []spec.Event{{Pipeline: d.Pipeline.ID, File: cmp.Or(owner.Path, d.Owner.Path), Type: spec.EventNormal,
			Reason: "Adopted", Message: by + " takes it over"}}}
	if err := s.Desired.Apply(r.Context(), changes, map[string]*spec.Declaration{d.Pipeline.ID: d}); err != nil {
		return nil, conflict(err)
	}
	d, err = s.Desired.Pipeline(r.Context(), d.Pipeline.ID)
	return s.present(w, d, err)
}

// newOwner returns the new owner of d.
func (s *ownerHandlers) newOwner(r *http.Request, d *spec.Declaration, body *rest.Adopt) (spec.Owner, error) {
	switch body.Owner {
	case spec.OwnerFile, "":
		if d.Owner.Kind == spec.OwnerFile {
			return spec.Owner{}, rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid,
				"pipeline %q is already owned by %s", d.Pipeline.ID, d.Owner.Path).
				With("configPath", "owner").Suggest("to change the file, move the declaration there")
		}
		path, err := s.declaring(r, d.Pipeline.ID, body.Path)
		return spec.Owner{Kind: spec.OwnerFile, Path: path}, err
	case spec.OwnerAPI:
		if d.Owner.Kind == spec.OwnerAPI {
			return spec.Owner{}, rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid,
				"pipeline %q is already owned by the API", d.Pipeline.ID).With("configPath", "owner")
		}
		return spec.Owner{Kind: spec.OwnerAPI}, nil
	}
	return spec.Owner{}, fieldError(spec.CodeInvalid, "owner", "owner must be file or api")
}

// conflict converts ErrStale to an error for the client.
func conflict(err error) error {
	if errors.Is(err, errStale) {
		return rest.Errorf(rest.Aborted, rest.ReasonChanged,
			"another client changed it in the meantime").Suggest("try again")
	}
	return err
}

// declaring returns the path of the only file that declares pipeline id, or the requested path.
func (s *ownerHandlers) declaring(r *http.Request, id, path string) (string, error) {
	files, err := s.Desired.FileStates(r.Context())
	if err != nil {
		return "", err
	}
	var paths []string
	for _, f := range files {
		if slices.Contains(f.Pipelines, id) && (path == "" || path == f.Path) {
			paths = append(paths, f.Path)
		}
	}
	switch len(paths) {
	case 1:
		return paths[0], nil
	case 0:
		return "", rest.Errorf(rest.FailedPrecondition, rest.ReasonNoFile, "no file declares pipeline %q", id).
			Suggest("write it to a file first: POST /v1/pipelines/%s/export returns the content", id)
	}
	return "", fieldError(spec.CodeRequired, "path",
		fmt.Sprintf("%d files declare pipeline %q: set the file that takes it over", len(paths), id))
}
