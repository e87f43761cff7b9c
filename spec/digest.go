package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sort"
)

// Digest identifies everything in p that affects how it runs, its status included: two normalized pipelines with the
// same digest are the same to the agent. Names, descriptions, labels, max-silence, the terms of a cluster, and the
// order of settings and connectors do not count, except for destinations where the first one with a true condition gets
// a record. A number of instances counts, if it determines the part that each
// instance reads. The digest of a pipeline is the same in every version of the agent.
func Digest(p *Pipeline) string { return digest(p, p.Status) }

// RunDigest is Digest without the status.
func RunDigest(p *Pipeline) string { return digest(p, "") }

func digest(p *Pipeline, status Status) string {
	c := p.Clone()
	c.Name, c.Description, c.MaxSilence, c.Labels, c.Status, c.Terms = "", "", "", nil, status, Terms{}
	for i := range c.Connectors {
		c.Connectors[i].Name = ""
		c.Connectors[i].Settings = nilIfEmpty(numbered(c.Connectors[i].Plugin, c.Connectors[i].Settings, p.Instances))
		c.Connectors[i].Processors = normalizeProcessors(c.Connectors[i].Processors)
	}
	c.Processors = normalizeProcessors(c.Processors)
	sort.SliceStable(c.Connectors, func(i, j int) bool { return c.Connectors[i].ID < c.Connectors[j].ID })
	if len(c.Connectors) == 0 {
		c.Connectors = nil
	}
	c.DeadLetterQueue.Settings = nilIfEmpty(c.DeadLetterQueue.Settings)
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings, numbers, maps and slices can always be encoded
	}
	for _, id := range p.routeOrder() {
		text = append(append(text, 0), id...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Version identifies everything in d that a person decides: the pipeline, its owner, and an override.
func (d *Declaration) Version() string {
	text, err := json.Marshal([]any{d.Pipeline, d.Owner.Kind, d.Owner.Path, d.Override})
	if err != nil {
		panic(err) // strings, numbers, maps and slices can always be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
