package deadletter

import (
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// Entry is the place where a replayed record enters a pipeline. Its ids are those in the pipeline file.
type Entry struct {
	Connector string `json:"connector,omitempty"` // of the processors or the destination; "": the pipeline's processors
	Processor string `json:"processor,omitempty"` // "": the destination itself
	Index     int    `json:"index,omitempty"`     // of the processor in its list
}

// entryOf returns the entry for the qualified id of a processor or destination of p.
func entryOf(p *spec.Pipeline, qualified string) Entry {
	for _, c := range p.Connectors {
		id := p.QualifiedID(c.ID)
		if qualified == id {
			return Entry{Connector: c.ID}
		}
		if i := indexOf(c.Processors, id, qualified); i >= 0 {
			return Entry{Connector: c.ID, Processor: c.Processors[i].ID, Index: i}
		}
	}
	if i := indexOf(p.Chain(nil), p.ID, qualified); i >= 0 {
		return Entry{Processor: p.Chain(nil)[i].ID, Index: i}
	}
	return Entry{Processor: strings.TrimPrefix(qualified, p.ID+":")} // the version was just replaced
}

func indexOf(all []spec.Processor, parent, qualified string) int {
	return slices.IndexFunc(all, func(d spec.Processor) bool { return parent+":"+d.ID == qualified })
}

// stageOf returns the stage of a qualified id.
func stageOf(p *spec.Pipeline, qualified string) spec.DeadLetterStage {
	e := entryOf(p, qualified)
	i := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return c.ID == e.Connector })
	switch {
	case i < 0:
		return spec.RefusedByPipelineProcessor
	case p.Connectors[i].Type == spec.TypeSource:
		return spec.RefusedBySourceProcessor
	case e.Processor != "":
		return spec.RefusedByDestinationProcessor
	}
	return spec.RefusedByDestination
}
