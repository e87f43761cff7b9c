package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// resource is a pipeline, a connector or a processor.
type resource struct {
	kind rest.ResourceKind
	id   string
	path string // in spec.Change
}

// resourcesOf returns p, nil for none, with its connectors and processors, by path.
func resourcesOf(p *spec.Pipeline) map[string]resource {
	all := map[string]resource{}
	if p == nil {
		return all
	}
	add := func(kind rest.ResourceKind, id, path string) resource {
		all[path] = resource{kind, id, path}
		return all[path]
	}
	processors := func(parent resource, list []spec.Processor) {
		for i := range list {
			add(rest.ResourceProcessor, parent.id+":"+list[i].ID, parent.path+"/processors/"+list[i].ID)
		}
	}
	processors(add(rest.ResourcePipeline, p.ID, ""), p.Processors)
	for i := range p.Connectors {
		c := &p.Connectors[i]
		processors(add(rest.ResourceConnector, p.QualifiedID(c.ID), "/connectors/"+c.ID), c.Processors)
	}
	return all
}

// differences returns the changes that making p of the pipeline in basis causes. Either may be nil for none.
func differences(basis *spec.Declaration, p *spec.Pipeline) []rest.ResourceChange {
	var old *spec.Pipeline
	if basis != nil {
		old = &basis.Pipeline
	}
	before, after := resourcesOf(old), resourcesOf(p)
	all := maps.Clone(before)
	maps.Copy(all, after)
	differences := map[string][]spec.Change{} // by path of the resource
	for _, d := range spec.Diff(old, p) {
		if old == nil {
			d.Effect = spec.EffectNone // there is no run to disturb
		}
		at := closest(d.Path, all)
		differences[at] = append(differences[at], d)
	}
	changes := []rest.ResourceChange{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		_, was := before[path]
		_, is := after[path]
		switch around := differences[closest(path, differences)]; {
		case !was:
			changes = append(changes, changeOf(all[path], rest.ResourceCreate, around))
		case !is:
			changes = append(changes, changeOf(all[path], rest.ResourceDelete, around))
		case len(differences[path]) > 0:
			changes = append(changes, changeOf(all[path], rest.ResourceUpdate, differences[path]))
		}
	}
	return changes
}

// closest returns the longest path in from that equals path or is a parent, "" if there is none.
func closest[T any](path string, from map[string]T) string {
	for path != "" {
		if _, ok := from[path]; ok {
			break
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return path
}

// changeOf returns the change of r that consists of the differences.
func changeOf(r resource, action rest.ResourceAction, differences []spec.Change) rest.ResourceChange {
	change := rest.ResourceChange{Resource: r.kind, ID: r.id, Action: action, Effect: rest.ResourceInPlace,
		ExactEffect: spec.EffectNone,
		ConfigPaths: []string{}, Code: "provisioning." + string(r.kind) + "." + string(action)}
	for _, d := range differences {
		if action == rest.ResourceUpdate {
			change.ConfigPaths = append(change.ConfigPaths, configPath(strings.TrimPrefix(d.Path, r.path)))
		}
		if d.Effect.Severity() > change.ExactEffect.Severity() {
			change.ExactEffect = d.Effect
		}
	}
	if change.ExactEffect.Severity() > spec.EffectInPlace.Severity() {
		change.Effect = rest.ResourceRestart
	}
	return change
}

// configPath returns the name of a resource field in a document. Everything after settings is one name, dots included.
func configPath(at string) string {
	at = strings.TrimPrefix(inDocument(at), "/")
	return schemas.UnescapePointer(strings.ReplaceAll(at, "/", "."))
}

// inDocument converts a pointer to the form of documents, where the fields of the dead-letter queue have other names.
func inDocument(at string) string {
	inside, ok := strings.CutPrefix(at, deadLetterQueuePath)
	if !ok {
		return at
	}
	switch inside {
	case "/window-size":
		inside = "/windowSize"
	case "/window-nack-threshold":
		inside = "/windowNackThreshold"
	case "/keep-original":
		inside = "/keepOriginal"
	}
	return "/dlq" + inside
}
