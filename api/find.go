package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// declared returns the pipelines that are declared, by id.
func (s *Server) declared(ctx context.Context) ([]spec.Declaration, error) {
	all, err := s.Desired.Declarations(ctx)
	if err != nil {
		return nil, err
	}
	kept := make([]spec.Declaration, 0, len(all))
	for _, d := range all {
		if d.Withdrawn.IsZero() {
			kept = append(kept, d)
		}
	}
	return kept, nil
}

// pipeline returns the declaration of a pipeline.
func (s *Server) pipeline(ctx context.Context, id string) (*spec.Declaration, error) {
	all, err := s.declared(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Pipeline.ID == id {
			return &all[i], nil
		}
	}
	return nil, rest.Errorf(rest.NotFound, rest.ReasonPipelineNotFound, "pipeline %q not found", id).
		Suggest("GET /v1/pipelines lists the pipelines there are")
}

// connector returns the declaration that a connector is part of, and its index there.
func (s *Server) connector(ctx context.Context, id string) (*spec.Declaration, int, error) {
	all, err := s.declared(ctx)
	if err != nil {
		return nil, 0, err
	}
	for i := range all {
		if j := connectorIn(&all[i].Pipeline, id); j >= 0 {
			return &all[i], j, nil
		}
	}
	return nil, 0, rest.Errorf(rest.NotFound, rest.ReasonConnectorNotFound, "connector %q not found", id).
		Suggest("GET /v1/connectors lists the connectors there are; an id has the form <pipeline>:<connector>")
}

// connectorIn returns the index of the connector with the qualified id, -1 if it is not in p.
func connectorIn(p *spec.Pipeline, id string) int {
	local, ok := strings.CutPrefix(id, p.ID+":")
	if !ok {
		return -1
	}
	for i := range p.Connectors {
		if p.Connectors[i].ID == local {
			return i
		}
	}
	return -1
}

// chain is a list of processors of a pipeline, or of one of its connectors.
type chain struct {
	parent rest.Parent
	prefix string // JSON pointer within the pipeline
	list   *[]spec.Processor
}

// chains returns the lists of processors of p.
func chains(p *spec.Pipeline) []chain {
	all := []chain{{rest.Parent{Type: rest.ParentPipeline, ID: p.ID}, "/processors", &p.Processors}}
	for i := range p.Connectors {
		c := &p.Connectors[i]
		all = append(all, chain{rest.Parent{Type: rest.ParentConnector, ID: p.QualifiedID(c.ID)},
			"/connectors/" + strconv.Itoa(i) + "/processors", &c.Processors})
	}
	return all
}

// processorIn returns the chain and index of the processor with the qualified id.
func processorIn(p *spec.Pipeline, id string) (chain, int, bool) {
	if !strings.HasPrefix(id, p.ID+":") {
		return chain{}, 0, false
	}
	for _, c := range chains(p) {
		for i := range *c.list {
			if c.parent.ID+":"+(*c.list)[i].ID == id {
				return c, i, true
			}
		}
	}
	return chain{}, 0, false
}

// processor returns the declaration that a processor is part of, and where it is there.
func (s *Server) processor(ctx context.Context, id string) (*spec.Declaration, chain, int, error) {
	all, err := s.declared(ctx)
	if err != nil {
		return nil, chain{}, 0, err
	}
	for i := range all {
		if c, j, ok := processorIn(&all[i].Pipeline, id); ok {
			return &all[i], c, j, nil
		}
	}
	return nil, chain{}, 0, rest.Errorf(rest.NotFound, rest.ReasonProcessorNotFound, "processor %q not found", id).
		Suggest("GET /v1/processors lists the processors there are")
}

// tag identifies the content of v, which is part of a declaration.
func tag(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // declarations consist of what JSON can say
	}
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches returns an error unless r may change what has this ETag now.
func matches(r *http.Request, current string) error {
	want := r.Header.Values("If-Match")
	if len(want) == 0 {
		return nil
	}
	for t := range strings.SplitSeq(strings.Join(want, ","), ",") {
		if t = strings.TrimSpace(t); t == "*" || t == current {
			return nil
		}
	}
	return outOfDate()
}

func outOfDate() *rest.Error {
	return rest.Errorf(rest.PreconditionFailed, rest.ReasonChanged, "somebody else changed it in the meantime").
		Suggest("read it again, repeat the change and send the new ETag in If-Match")
}
