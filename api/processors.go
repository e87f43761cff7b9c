package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func sortByID[T any](list []T, id func(T) string) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(id(a), id(b)) })
}

func shownProcessor(d *spec.Declaration, c chain, i int) rest.Processor {
	p := &(*c.list)[i]
	return rest.Processor{
		ID: c.parent.ID + ":" + p.ID, Plugin: p.Plugin, Condition: p.Condition, Parent: c.parent,
		Config:    rest.ProcessorConfig{Settings: redact(p.Settings), Workers: p.Workers},
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
}

func (s *Server) listProcessors(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := s.declared(r.Context())
	list, of := []rest.Processor{}, r.URL.Query()["parentIds"]
	for i := range all {
		for _, c := range chains(&all[i].Pipeline) {
			if len(of) > 0 && !slices.Contains(of, c.parent.ID) {
				continue
			}
			for j := range *c.list {
				list = append(list, shownProcessor(&all[i], c, j))
			}
		}
	}
	sortByID(list, func(p rest.Processor) string { return p.ID })
	return list, err
}

func (s *Server) presentProcessor(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	d, c, i, err := s.processor(r.Context(), id)
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", tag((*c.list)[i]))
	return shownProcessor(d, c, i), nil
}

func (s *Server) getProcessor(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.presentProcessor(w, r, r.PathValue("id"))
}

// chainOf returns the chain of the parent within p.
func chainOf(p *spec.Pipeline, parent rest.Parent) (chain, error) {
	for _, c := range chains(p) {
		if c.parent == parent {
			return c, nil
		}
	}
	return chain{}, rest.Errorf(rest.NotFound, rest.ReasonConnectorNotFound, "connector %q not found", parent.ID)
}

// parentPipeline returns the id of the pipeline that parent is or is part of.
func (s *Server) parentPipeline(r *http.Request, parent rest.Parent) (string, error) {
	switch parent.Type {
	case rest.ParentPipeline:
		_, err := s.pipeline(r.Context(), parent.ID)
		return parent.ID, about(err, "parent.id")
	case rest.ParentConnector:
		d, _, err := s.connector(r.Context(), parent.ID)
		if err != nil {
			return "", about(err, "parent.id")
		}
		return d.Pipeline.ID, nil
	}
	return "", fieldError(rest.ReasonProcessorParent, "parent.type", "parent.type must be TYPE_PIPELINE or TYPE_CONNECTOR, not "+strconv.Quote(string(parent.Type)))
}

func (s *Server) createProcessor(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.ProcessorRequest
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	pipelineID, err := s.parentPipeline(r, body.Parent)
	if err != nil {
		return nil, err
	}
	settings, err := keep(body.Config.Settings, nil, "config.settings")
	if err != nil {
		return nil, err
	}
	added := spec.Processor{ID: identify(body.ID, body.Parent.ID), Plugin: cmp.Or(body.Plugin, body.Type), Condition: body.Condition, Settings: settings, Workers: body.Config.Workers}
	id := body.Parent.ID + ":" + added.ID
	e := &edit{id: pipelineID}
	e.apply = func(p *spec.Pipeline) error {
		c, err := chainOf(p, body.Parent)
		if err != nil {
			return err
		}
		if _, _, there := processorIn(p, id); there {
			return rest.Errorf(rest.AlreadyExists, rest.ReasonProcessorExists, "processor %q exists already", id).
				With("configPath", "id").Suggest("choose another id, or leave it out to get one")
		}
		e.prefix = c.prefix + "/" + strconv.Itoa(len(*c.list))
		*c.list = append(*c.list, added)
		return nil
	}
	if _, err := s.edit(w, r, e); err != nil {
		return nil, err
	}
	return s.presentProcessor(w, r, id)
}

// editProcessor changes the processor with the qualified id.
func (s *Server) editProcessor(w http.ResponseWriter, r *http.Request, id string, apply func(c chain, i int) error) error {
	d, _, _, err := s.processor(r.Context(), id)
	if err != nil {
		return err
	}
	e := &edit{id: d.Pipeline.ID}
	e.current = func(p *spec.Pipeline) string {
		if c, i, ok := processorIn(p, id); ok {
			return tag((*c.list)[i])
		}
		return ""
	}
	e.apply = func(p *spec.Pipeline) error {
		c, i, ok := processorIn(p, id)
		if !ok {
			return rest.Errorf(rest.NotFound, rest.ReasonProcessorNotFound, "processor %q not found", id)
		}
		e.prefix = c.prefix + "/" + strconv.Itoa(i)
		return apply(c, i)
	}
	_, err = s.edit(w, r, e)
	return err
}

func (s *Server) updateProcessor(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.ProcessorUpdate
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	err := s.editProcessor(w, r, id, func(c chain, i int) error {
		p := &(*c.list)[i]
		if body.ID != "" && body.ID != id {
			return mismatch("id", id, body.ID)
		}
		if body.Parent != (rest.Parent{}) && body.Parent != c.parent {
			return mismatch("parent.id", c.parent.ID, body.Parent.ID)
		}
		settings, err := keep(body.Config.Settings, p.Settings, "config.settings")
		p.Settings = settings
		p.Plugin = cmp.Or(body.Plugin, body.Type, p.Plugin)
		if body.Condition != nil {
			p.Condition = *body.Condition
		}
		if body.Config.Workers != nil {
			p.Workers = *body.Config.Workers
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.presentProcessor(w, r, id)
}

func (s *Server) deleteProcessor(w http.ResponseWriter, r *http.Request) (any, error) {
	err := s.editProcessor(w, r, r.PathValue("id"), func(c chain, i int) error {
		*c.list = slices.Delete(*c.list, i, i+1)
		return nil
	})
	return rest.Empty{}, err
}

// inspectProcessor refuses: there is nothing to see as long as there are no processor
// plugins.
func (s *Server) inspectProcessor(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	d, _, _, err := s.processor(r.Context(), id)
	if err != nil {
		return nil, err
	}
	e := rest.Errorf(rest.Unimplemented, rest.ReasonUnimplemented, "processor %q cannot be inspected: the agent has no processor plugins, so no records pass it", id)
	if len(d.Pipeline.Connectors) > 0 {
		e.Suggest("inspect a connector: GET /v1/connectors/%s/inspect", d.Pipeline.QualifiedID(d.Pipeline.Connectors[0].ID))
	}
	return nil, e
}
