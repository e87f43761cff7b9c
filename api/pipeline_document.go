package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// documentHandlers plans and applies whole pipelines.
type documentHandlers struct{ shared }

// Plan answers with the changes that applying a document would make. It refuses every document that Apply would refuse.
func (s *documentHandlers) Plan(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.DocumentPlan
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	d, err := s.draft(r, &body.Config)
	if err != nil {
		return nil, err
	}
	if err := s.feasible(r, d); err != nil {
		return nil, err
	}
	return d.diff, nil
}

// Apply declares the content of a document if its plan still holds, and answers when the declaration is stored. It
// takes effect like a change of a pipeline file.
func (s *documentHandlers) Apply(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.DocumentApply
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	if body.Hash == "" {
		return nil, fieldError(spec.CodeRequired, "hash", "hash is missing: a document is applied with the hash of "+
			"the plan").
			Suggest("POST it to /v1/pipelines/plan and send the hash of the response")
	}
	d, err := s.draft(r, &body.Config)
	if err != nil {
		return nil, err
	}
	if d.diff.Hash != body.Hash {
		return nil, planStale(d.pipeline.ID)
	}
	if len(d.diff.Changes) == 0 {
		setGeneration(w, d.basis)
		return d.diff, nil
	}
	if err := s.feasible(r, d); err != nil {
		return nil, err
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: *d.pipeline, Owner: spec.Owner{Kind: spec.OwnerAPI},
		Origin: origin + ": apply"}}}
	err = s.Desired.Apply(r.Context(), changes, map[string]*spec.Declaration{d.pipeline.ID: d.basis})
	if errors.Is(err, errStale) {
		err = planStale(d.pipeline.ID)
	}
	if err != nil {
		return nil, err
	}
	if now, err := s.Desired.Pipeline(r.Context(), d.pipeline.ID); err == nil {
		setGeneration(w, now)
	}
	return d.diff, nil
}

func planStale(id string) error {
	return rest.Errorf(rest.PreconditionFailed, rest.ReasonPlanStale,
		"the plan for pipeline %q is out of date: the document or the declaration has changed", id).
		Suggest("POST the document to /v1/pipelines/plan again, review the changes, and send the new hash")
}

// draft is a document compared with the declaration it changes.
type draft struct {
	basis    *spec.Declaration // nil when there is no such pipeline
	old      *spec.Pipeline    // of basis; empty without
	pipeline *spec.Pipeline    // of the document, valid
	diff     rest.DocumentDiff
}

// draft returns the declaration that doc describes and its changes. It refuses documents about pipelines that do not
// belong to the API.
func (s *documentHandlers) draft(r *http.Request, doc *rest.PipelineDocument) (*draft, error) {
	p := pipelineIn(doc)
	basis, err := s.replaceable(r, p.ID)
	if err != nil {
		return nil, err
	}
	if err := validate(s.Desired.Parser, p, documentField); err != nil {
		return nil, err
	}
	old, seen := &spec.Pipeline{}, []any{p}
	if basis != nil {
		old, seen = &basis.Pipeline, append(seen, basis.Version(), basis.Generation, basis.CreatedAt)
	}
	if err := keepAllSecrets(p, old, documentField); err != nil {
		return nil, err
	}
	diff := rest.DocumentDiff{PipelineID: p.ID, Changes: differences(basis, p), Hash: strings.Trim(etag(seen), `"`)}
	return &draft{basis, old, p, diff}, nil
}

// feasible returns the reason why d cannot be declared: a name that is taken, or a plugin that refuses its settings.
func (s *documentHandlers) feasible(r *http.Request, d *draft) error {
	all, err := s.Desired.Declared(r.Context())
	if err != nil {
		return err
	}
	if err := unique(&spec.Changes{Declare: []spec.Declare{{Pipeline: *d.pipeline}}}, all); err != nil {
		return err
	}
	return s.Desired.CheckPlugins(r.Context(), d.old, d.pipeline, documentField)
}

// pipelineIn returns the pipeline that doc describes, normalized.
func pipelineIn(doc *rest.PipelineDocument) *spec.Pipeline {
	p := &spec.Pipeline{ID: doc.ID, Status: doc.Status, Name: doc.Name, Description: doc.Description,
		MaxSilence: doc.MaxSilence, Labels: doc.Labels, Routing: doc.Routing,
		Terms:      spec.Terms{Cluster: doc.Cluster, Placement: doc.Placement, Instances: doc.Instances},
		Processors: processorsIn(doc.Processors, doc.ID), DeadLetterQueue: deadLetterQueueIn(doc.DeadLetterQueue)}
	for _, c := range doc.Connectors {
		id := strings.TrimPrefix(c.ID, doc.ID+":")
		p.Connectors = append(p.Connectors, spec.Connector{ID: id, Type: c.Type, Plugin: c.Plugin, Name: c.Name,
			Condition: c.Condition, Default: c.Default, Isolate: c.Isolate.Clone(), Settings: c.Settings,
			Processors: processorsIn(c.Processors, doc.ID+":"+id)})
	}
	spec.Normalize(p)
	return p
}

func processorsIn(docs []rest.ProcessorDocument, parent string) (all []spec.Processor) {
	for _, d := range docs {
		all = append(all, spec.Processor{ID: strings.TrimPrefix(d.ID, parent+":"), Plugin: d.Plugin,
			Condition: d.Condition,
			Settings:  d.Settings, Workers: d.Workers})
	}
	return all
}

// deadLetterQueueIn returns the default dead-letter queue with the overrides in doc. The default settings apply to the
// default plugin only.
func deadLetterQueueIn(doc *rest.DeadLetterQueueDocument) spec.DeadLetterQueue {
	var standard spec.Pipeline
	spec.Normalize(&standard)
	q := standard.DeadLetterQueue
	if doc == nil {
		return q
	}
	if doc.Plugin != "" && doc.Plugin != q.Plugin {
		q.Plugin, q.Settings = doc.Plugin, nil
	}
	if doc.Settings != nil {
		q.Settings = doc.Settings
	}
	if doc.WindowSize != nil {
		q.WindowSize = int(*doc.WindowSize)
	}
	q.WindowNackThreshold = int(doc.WindowNackThreshold)
	q.KeepOriginal = doc.KeepOriginal
	return q
}

// documentField returns the path, in a request with a document, of the field that pointer addresses in the pipeline.
func documentField(pointer string) string {
	return followPointer("config", strings.TrimPrefix(inDocument(pointer), "/"))
}
