package spec

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

const defaultWorkers = 1

// Normalize sets the fields that p leaves out: names, status, workers and, when it has no plugin, the whole dead-letter
// queue. Empty settings become nil and Connectors becomes non-nil. Normalize is idempotent.
func Normalize(p *Pipeline) {
	if p.Status == "" {
		p.Status = StatusRunning
	}
	if p.Name == "" {
		p.Name = p.ID
	}
	if p.Routing == RouteToAll {
		p.Routing = ""
	}
	if p.Connectors == nil {
		p.Connectors = []Connector{}
	}
	for i := range p.Connectors {
		c := &p.Connectors[i]
		if c.Name == "" {
			c.Name = c.ID
		}
		c.Isolate.Normalize()
		c.Settings = nilIfEmpty(c.Settings)
		c.Processors = normalizeProcessors(c.Processors)
	}
	p.Processors = normalizeProcessors(p.Processors)
	normalizeDeadLetterQueue(&p.DeadLetterQueue)
}

func normalizeProcessors(all []Processor) []Processor {
	for i := range all {
		if all[i].Workers == 0 {
			all[i].Workers = defaultWorkers
		}
		all[i].Settings = nilIfEmpty(all[i].Settings)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func normalizeDeadLetterQueue(q *DeadLetterQueue) {
	if q.Plugin == "" {
		q.Plugin = defaultDeadLetterQueuePlugin
		if q.Settings == nil {
			q.Settings = defaultDeadLetterQueueSettings()
		}
		if q.WindowSize == 0 {
			q.WindowSize = defaultWindowSize
		}
	}
	q.Settings = nilIfEmpty(q.Settings)
}

func nilIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// completeDeadLetterQueue sets the absent fields of a dead-letter queue. Unlike in Normalize, absent and zero differ.
func completeDeadLetterQueue(fields map[string]any) {
	if fields["plugin"] == nil {
		fields["plugin"] = defaultDeadLetterQueuePlugin
	}
	if plugin, _ := fields["plugin"].(string); fields["settings"] == nil && isLog(plugin) {
		settings := map[string]any{}
		for k, v := range defaultDeadLetterQueueSettings() {
			settings[k] = v
		}
		fields["settings"] = settings
	}
	if fields["window-size"] == nil {
		fields["window-size"] = defaultWindowSize
	}
}

// isLog reports whether plugin names the log destination. The default settings belong to it; another plugin would not
// know them.
func isLog(plugin string) bool {
	name, _, _ := strings.Cut(plugin, "@")
	return name == "log" || name == "builtin:log" || name == "any:log"
}

// EachSettings yields the settings of all connectors, processors and the dead-letter queue, with the names of their
// plugins. It skips parts without settings.
func (p *Pipeline) EachSettings() iter.Seq2[string, map[string]string] {
	return func(yield func(string, map[string]string) bool) {
		processors := p.Processors
		for i := range p.Connectors {
			c := &p.Connectors[i]
			if !yield(c.Plugin, c.Settings) {
				return
			}
			processors = append(processors[:len(processors):len(processors)], c.Processors...)
		}
		for i := range processors {
			if !yield(processors[i].Plugin, processors[i].Settings) {
				return
			}
		}
		yield(p.DeadLetterQueue.Plugin, p.DeadLetterQueue.Settings)
	}
}

// Clone returns a copy of p that shares nothing with it.
func (p *Pipeline) Clone() *Pipeline {
	c := *p
	c.Connectors = slices.Clone(p.Connectors)
	for i := range c.Connectors {
		c.Connectors[i].Isolate = c.Connectors[i].Isolate.Clone()
		c.Connectors[i].Settings = maps.Clone(c.Connectors[i].Settings)
		c.Connectors[i].Processors = cloneProcessors(c.Connectors[i].Processors)
	}
	c.Processors = cloneProcessors(p.Processors)
	c.DeadLetterQueue.Settings = maps.Clone(p.DeadLetterQueue.Settings)
	c.Labels, c.Terms = maps.Clone(p.Labels), p.Terms.Clone()
	return &c
}

func cloneProcessors(all []Processor) []Processor {
	all = slices.Clone(all)
	for i := range all {
		all[i].Settings = maps.Clone(all[i].Settings)
	}
	return all
}
