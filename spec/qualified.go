package spec

import (
	"fmt"
	"iter"
	"slices"
)

// QueueID is the id of the dead-letter queue of a pipeline among its connectors.
const QueueID = "dead-letter-queue"

// Meanings returns every pair of ids of a pipeline and a connector with this qualified id: as both may contain colons,
// there may be several.
func Meanings(qualified string) iter.Seq2[string, string] {
	return func(yield func(pipeline, connector string) bool) {
		for i := range qualified {
			if qualified[i] == ':' && !yield(qualified[:i], qualified[i+1:]) {
				return
			}
		}
	}
}

// Has reports whether p has a connector with this id, or connectorID is QueueID.
func (p *Pipeline) Has(connectorID string) bool {
	return connectorID == QueueID || slices.ContainsFunc(p.Connectors, func(c Connector) bool {
		return c.ID == connectorID
	})
}

// SameIDError says that two connectors would have the same qualified id.
type SameIDError struct {
	Pipeline, Connector           string
	OtherPipeline, OtherConnector string
}

// Error names both connectors.
func (s *SameIDError) Error() string {
	return fmt.Sprintf("connector %q of pipeline %q and connector %q of pipeline %q have the same full id %q: rename "+
		"one of them",
		s.Connector, s.Pipeline, s.OtherConnector, s.OtherPipeline, s.Pipeline+":"+s.Connector)
}

// Problem describes the clash as a problem of p, which has the first of the two connectors.
func (s *SameIDError) Problem(p *Pipeline) Problem {
	problem := Problem{Severity: SeverityError, Code: CodeSameID, Message: s.Error()}
	if i := slices.IndexFunc(p.Connectors, func(c Connector) bool { return c.ID == s.Connector }); i >= 0 {
		problem.Path = fmt.Sprintf("/connectors/%d/id", i)
	}
	return problem
}

// Clash returns the first connector of p with the same qualified id as a connector of another pipeline, nil if there is
// none. get returns the pipelines with an id.
func (p *Pipeline) Clash(get func(id string) []*Pipeline) *SameIDError {
	ids := []string{QueueID}
	for i := range p.Connectors {
		ids = append(ids, p.Connectors[i].ID)
	}
	for _, id := range ids {
		for pipeline, connector := range Meanings(p.QualifiedID(id)) {
			if pipeline == p.ID {
				continue
			}
			for _, other := range get(pipeline) {
				if other.Has(connector) {
					return &SameIDError{p.ID, id, pipeline, connector}
				}
			}
		}
	}
	return nil
}
