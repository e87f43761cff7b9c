package reconcile

import (
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/spec"
)

// warnOfLostPositions tells of sources that a version which runs now has not, or with
// another plugin than the one before, so that their positions are not used.
func (l *Loop) warnOfLostPositions(p *pipe, before, now *spec.Pipeline) {
	for i := range before.Connectors {
		old := &before.Connectors[i]
		if old.Type != spec.TypeSource {
			continue
		}
		k := slices.IndexFunc(now.Connectors, func(c spec.Connector) bool { return c.ID == old.ID && c.Type == spec.TypeSource })
		var message string
		switch {
		case k < 0:
			message = fmt.Sprintf("source %q is gone, and what takes its place began anew; "+
				"to go on from its position declare a source with its id again within pipelines.cleanup-delay", old.ID)
		case spec.PluginName(now.Connectors[k].Plugin) != spec.PluginName(old.Plugin):
			message = fmt.Sprintf("source %q has the plugin %s instead of %s, whose position means nothing to it, and began anew; "+
				"the other plugin was not told that the connector is gone", old.ID, now.Connectors[k].Plugin, old.Plugin)
		default:
			continue
		}
		l.Log.Warn(message, "component", "reconcile", "pipeline_id", now.ID, "connector_id", now.QualifiedID(old.ID), "reason", "PositionLost")
		l.event(p, warning, "PositionLost", message)
	}
}

// warnOfRenames tells of new pipelines that are what a withdrawn one is, but for the id:
// their sources begin anew.
func (d *decision) warnOfRenames(declared []spec.Declaration) {
	if len(d.added) == 0 {
		return
	}
	old := map[string]string{}
	for i := range declared {
		have := &declared[i]
		gone := d.claims[have.Pipeline.ID] == nil && !d.opaque(have.Owner.Path)
		if have.Owner.Kind == spec.OwnerFile && gone && !have.Purge {
			old[anonymous(&have.Pipeline)] = have.Pipeline.ID
		}
	}
	for _, p := range d.added {
		if len(old) == 0 {
			return
		}
		if id := old[anonymous(p)]; id != "" {
			d.event(p.ID, d.claims[p.ID][0].path, warning, "LooksRenamed", fmt.Sprintf("pipeline %q is what %q was, which is withdrawn: with another id its sources begin anew; "+
				"to go on from where %[2]q got, give it that id again within pipelines.cleanup-delay; its name may be another", p.ID, id))
		}
	}
}

// anonymous identifies all of p that affects how it runs, but its id.
func anonymous(p *spec.Pipeline) string {
	unnamed := *p
	unnamed.ID = ""
	return spec.RunDigest(&unnamed)
}
