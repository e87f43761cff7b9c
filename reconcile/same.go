package reconcile

import (
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/spec"
)

// sameDeclaration reports whether b is what a was, or differs in nothing that matters
// to what runs.
func sameDeclaration(a, b *spec.Declaration) bool {
	return a.Generation == b.Generation && a.Digest == b.Digest && a.Override == b.Override && a.Purge == b.Purge &&
		a.Withdrawn.Equal(b.Withdrawn) && a.UpdatedAt.Equal(b.UpdatedAt)
}

// samePipeline reports whether a and b are written down alike. A missing list or map
// is the same as an empty one.
func samePipeline(a, b *spec.Pipeline) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Name == b.Name && a.Description == b.Description &&
		slices.EqualFunc(a.Connectors, b.Connectors, sameConnector) &&
		slices.EqualFunc(a.Processors, b.Processors, sameProcessor) &&
		a.DLQ.Plugin == b.DLQ.Plugin && maps.Equal(a.DLQ.Settings, b.DLQ.Settings) &&
		a.DLQ.WindowSize == b.DLQ.WindowSize && a.DLQ.WindowNackThreshold == b.DLQ.WindowNackThreshold
}

func sameConnector(a, b spec.Connector) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Plugin == b.Plugin && a.Name == b.Name &&
		maps.Equal(a.Settings, b.Settings) && slices.EqualFunc(a.Processors, b.Processors, sameProcessor)
}

func sameProcessor(a, b spec.Processor) bool {
	return a.ID == b.ID && a.Plugin == b.Plugin && a.Condition == b.Condition && a.Workers == b.Workers && maps.Equal(a.Settings, b.Settings)
}
