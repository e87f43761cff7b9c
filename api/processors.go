package api

import (
	"cmp"
	"net/http"
	"slices"
	"sort"
	"strconv"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func sortByID[T any](list []T, id func(T) string) {
	sort.SliceStable(list, func(i, j int) bool { return id(list[i]) < id(list[j]) })
}

func shownProcessor(view *view, d *spec.Declaration, c processorChain, i int) rest.Processor {
	p := &(*c.List)[i]
	return rest.Processor{
		ID: c.Parent.ID + ":" + p.ID, Plugin: p.Plugin, Condition: p.Condition, Parent: c.Parent,
		Config:    rest.ProcessorConfig{Settings: view.Settings("", p.Plugin, p.Settings), Workers: p.Workers},
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
}

// processorRoutes returns the operations of processors.
func (s *Server) processorRoutes(base shared) []route {
	processors := &processorHandlers{shared: base}
	return []route{
		{operation{Method: get, Path: "/v1/processors", ID: "listProcessors", Tag: "processors",
			Summary: "List processors",
			Query: []param{{Name: "parentIds",
				Description: "only those of this pipeline or connector; may be repeated"}},
			Response: list(exampleProcessor)}, processors.List, guard.Read, nil},
		{operation{Method: post, Path: "/v1/processors", ID: "createProcessor", Tag: "processors",
			Summary: "Create a processor at the end of the list of its parent",
			Query:   live, Headers: postHeaders, Request: requestProcessor, Answer: generation,
			Response: exampleProcessor, Errors: []int{400, 404, 409}}, processors.Create, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/processors/{id}", ID: "getProcessor", Tag: "processors",
			Summary:  "Get a processor",
			Response: exampleProcessor, Errors: []int{404}}, processors.Get, guard.Read, nil},
		{operation{Method: put, Path: "/v1/processors/{id}", ID: "updateProcessor", Tag: "processors",
			Summary: "Replace settings and condition of a processor",
			Description: "If plugin, condition or workers are omitted, they do not change. Settings sent as *** keep " +
				"their value.",
			Query: live, Headers: ifMatch, Request: updateProcessor, Answer: generation,
			Response: exampleProcessor, Errors: []int{400, 404, 409, 412}}, processors.Update, guard.Admin, nil},
		{operation{Method: remove, Path: "/v1/processors/{id}", ID: "deleteProcessor", Tag: "processors",
			Summary: "Delete a processor",
			Query:   live, Headers: ifMatch, Answer: generation, Response: empty, Errors: []int{400, 404, 409, 412}},
			processors.Delete, guard.Admin, nil},
		{inspection("/v1/processors/{id}/inspect-in", "inspectProcessorIn", "processors",
			"Watch the input of a processor"), s.inspectProcessor(InspectIn), guard.Read, nil},
		{inspection("/v1/processors/{id}/inspect-out", "inspectProcessorOut", "processors",
			"Watch the output of a processor"), s.inspectProcessor(InspectOut), guard.Read, nil},
	}
}

// processorHandlers performs the operations on processors of pipelines and connectors.
type processorHandlers struct{ shared }

// List answers with all processors, or with the processors of the given parents.
func (s *processorHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := s.Desired.Declared(r.Context())
	view, list, parents := s.view(r), []rest.Processor{}, r.URL.Query()["parentIds"]
	for i := range all {
		for _, c := range processorChains(&all[i].Pipeline) {
			if len(parents) > 0 && !slices.Contains(parents, c.Parent.ID) {
				continue
			}
			for j := range *c.List {
				list = append(list, shownProcessor(view, &all[i], c, j))
			}
		}
	}
	sortByID(list, func(p rest.Processor) string { return p.ID })
	return list, err
}

// present answers with the processor id of d and its ETag.
func (s *processorHandlers) present(
	w http.ResponseWriter, r *http.Request, d *spec.Declaration, id string,
) (any, error) {
	c, i, ok := processorIn(&d.Pipeline, id)
	if !ok { // another change was faster
		return nil, processorNotFound(id)
	}
	w.Header().Set("ETag", etag((*c.List)[i]))
	return shownProcessor(s.view(r), d, c, i), nil
}

// Get answers with a processor.
func (s *processorHandlers) Get(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	d, _, _, err := s.Desired.Processor(r.Context(), id)
	if err != nil {
		return nil, err
	}
	return s.present(w, r, d, id)
}

// chainOf returns the chain of the parent within p.
func chainOf(p *spec.Pipeline, parent rest.Parent) (processorChain, error) {
	for _, c := range processorChains(p) {
		if c.Parent == parent {
			return c, nil
		}
	}
	return processorChain{}, connectorNotFound(parent.ID)
}

// parentPipeline returns the pipeline that parent is, or belongs to.
func (s *processorHandlers) parentPipeline(r *http.Request, parent rest.Parent) (*spec.Declaration, error) {
	switch parent.Type {
	case rest.ParentPipeline:
		d, err := s.Desired.Pipeline(r.Context(), parent.ID)
		return d, about(err, "parent.id")
	case rest.ParentConnector:
		d, _, err := s.Desired.Connector(r.Context(), parent.ID)
		return d, about(err, "parent.id")
	}
	return nil, fieldError(rest.ReasonProcessorParent, "parent.type",
		"parent.type must be TYPE_PIPELINE or TYPE_CONNECTOR, not "+strconv.Quote(string(parent.Type)))
}

// Create adds a processor to a pipeline or a connector.
func (s *processorHandlers) Create(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.ProcessorRequest
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	d, err := s.parentPipeline(r, body.Parent)
	if err != nil {
		return nil, err
	}
	settings, err := keepSecrets(body.Config.Settings, nil, "config.settings")
	if err != nil {
		return nil, err
	}
	added := spec.Processor{ID: identify(body.ID, body.Parent.ID), Plugin: cmp.Or(body.Plugin, body.Type),
		Condition: body.Condition, Settings: settings, Workers: body.Config.Workers}
	id := body.Parent.ID + ":" + added.ID
	e := &edit{ID: d.Pipeline.ID, Of: d}
	e.Apply = func(p *spec.Pipeline) error {
		c, err := chainOf(p, body.Parent)
		if err != nil {
			return err
		}
		if _, _, there := processorIn(p, id); there {
			return rest.Errorf(rest.AlreadyExists, rest.ReasonProcessorExists, "processor %q exists already", id).
				With("configPath", "id").Suggest("choose another id, or leave it out to get one")
		}
		e.Path = c.Path + "/" + strconv.Itoa(len(*c.List))
		*c.List = append(*c.List, added)
		return nil
	}
	if d, err = s.edit(w, r, e); err != nil {
		return nil, err
	}
	return s.present(w, r, d, id)
}

// change changes the processor with the qualified id, and returns the resulting declaration.
func (s *processorHandlers) change(
	w http.ResponseWriter, r *http.Request, id string, apply func(c processorChain, i int) error,
) (*spec.Declaration, error) {
	d, _, _, err := s.Desired.Processor(r.Context(), id)
	if err != nil {
		return nil, err
	}
	e := &edit{ID: d.Pipeline.ID, Of: d}
	e.Current = func(p *spec.Pipeline) string {
		if c, i, ok := processorIn(p, id); ok {
			return etag((*c.List)[i])
		}
		return ""
	}
	e.Apply = func(p *spec.Pipeline) error {
		c, i, ok := processorIn(p, id)
		if !ok {
			return processorNotFound(id)
		}
		e.Path = c.Path + "/" + strconv.Itoa(i)
		return apply(c, i)
	}
	return s.edit(w, r, e)
}

// Update replaces the settings of a processor.
func (s *processorHandlers) Update(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.ProcessorUpdate
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	d, err := s.change(w, r, id, func(c processorChain, i int) error {
		p := &(*c.List)[i]
		if body.ID != "" && body.ID != id {
			return mismatch("id", id, body.ID)
		}
		if body.Parent != (rest.Parent{}) && body.Parent != c.Parent {
			return mismatch("parent.id", c.Parent.ID, body.Parent.ID)
		}
		settings, err := keepSecrets(body.Config.Settings, p.Settings, "config.settings")
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
	return s.present(w, r, d, id)
}

// Delete removes a processor.
func (s *processorHandlers) Delete(w http.ResponseWriter, r *http.Request) (any, error) {
	_, err := s.change(w, r, r.PathValue("id"), func(c processorChain, i int) error {
		*c.List = slices.Delete(*c.List, i, i+1)
		return nil
	})
	return rest.Empty{}, err
}
