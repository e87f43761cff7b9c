package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

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

// processorChain is the list of processors of a pipeline or connector.
type processorChain struct {
	Parent rest.Parent
	Path   string // JSON pointer within the pipeline
	List   *[]spec.Processor
}

// processorChains returns the lists of processors of p.
func processorChains(p *spec.Pipeline) []processorChain {
	all := []processorChain{{rest.Parent{Type: rest.ParentPipeline, ID: p.ID}, "/processors", &p.Processors}}
	for i := range p.Connectors {
		c := &p.Connectors[i]
		all = append(all, processorChain{rest.Parent{Type: rest.ParentConnector, ID: p.QualifiedID(c.ID)},
			"/connectors/" + strconv.Itoa(i) + "/processors", &c.Processors})
	}
	return all
}

// processorIn returns the chain and index of the processor with the qualified id.
func processorIn(p *spec.Pipeline, id string) (processorChain, int, bool) {
	if !strings.HasPrefix(id, p.ID+":") {
		return processorChain{}, 0, false
	}
	for _, c := range processorChains(p) {
		for i := range *c.List {
			if c.Parent.ID+":"+(*c.List)[i].ID == id {
				return c, i, true
			}
		}
	}
	return processorChain{}, 0, false
}

// etag identifies the content of v, which is part of a declaration.
func etag(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // declarations consist of JSON types
	}
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches returns an error unless the precondition of r accepts the current ETag.
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

// outOfDate returns the error for a change that is based on an outdated ETag.
func outOfDate() *rest.Error {
	return rest.Errorf(rest.PreconditionFailed, rest.ReasonChanged, "another client changed it in the meantime").
		Suggest("read the resource again, repeat the change and send the new ETag in If-Match")
}
