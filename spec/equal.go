package spec

import (
	"maps"
	"slices"
)

// Equal reports whether a and b have equal declarations, including the fields that Digest ignores. A missing list or
// map equals an empty one.
func Equal(a, b *Pipeline) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Name == b.Name && a.Description == b.Description &&
		a.MaxSilence == b.MaxSilence && a.Routing == b.Routing && maps.Equal(a.Labels, b.Labels) &&
		a.Terms.Equal(b.Terms) &&
		slices.EqualFunc(a.Connectors, b.Connectors, equalConnectors) &&
		slices.EqualFunc(a.Processors, b.Processors, equalProcessors) &&
		a.DeadLetterQueue.SameQueue(
			&b.DeadLetterQueue,
		) && a.DeadLetterQueue.WindowSize == b.DeadLetterQueue.WindowSize &&
		a.DeadLetterQueue.WindowNackThreshold == b.DeadLetterQueue.WindowNackThreshold &&
		a.DeadLetterQueue.KeepOriginal == b.DeadLetterQueue.KeepOriginal
}

func equalConnectors(a, b Connector) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Condition == b.Condition && a.Default == b.Default &&
		a.SameSystem(&b) &&
		slices.EqualFunc(a.Processors, b.Processors, equalProcessors)
}

func equalProcessors(a, b Processor) bool {
	return a.ID == b.ID && a.Plugin == b.Plugin && a.Condition == b.Condition && a.Workers == b.Workers &&
		maps.Equal(a.Settings, b.Settings)
}

// SameSystem reports whether c and o are the same plugin with the same settings and the same isolation, whatever
// their ids and names.
func (c *Connector) SameSystem(o *Connector) bool {
	return c.Type == o.Type && c.Plugin == o.Plugin && maps.Equal(c.Settings, o.Settings) &&
		c.Isolate.Equal(o.Isolate)
}

// SameQueue reports whether q and o send refused records to the same place.
func (q *DeadLetterQueue) SameQueue(o *DeadLetterQueue) bool {
	return q.Plugin == o.Plugin && maps.Equal(q.Settings, o.Settings)
}
