package reconcile

import (
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// warnOfLostPositions reports sources of the previous version that are missing in the running version, or have another
// plugin there, so that their positions are not used.
func (p *pipelineState) warnOfLostPositions(before, now *spec.Pipeline) {
	for i := range before.Connectors {
		old := &before.Connectors[i]
		if old.Type != spec.TypeSource {
			continue
		}
		k := slices.IndexFunc(now.Connectors, func(c spec.Connector) bool {
			return c.ID == old.ID && c.Type == spec.TypeSource
		})
		var message string
		switch {
		case k < 0:
			message = fmt.Sprintf("source %q was removed, and its replacement started over; to resume from its "+
				"position, declare a source with its id again within pipelines.cleanup-delay", old.ID)
		case pluginname.Bare(now.Connectors[k].Plugin) != pluginname.Bare(old.Plugin):
			message = fmt.Sprintf("source %q started over, because plugin %s cannot use a position of %s; the former "+
				"plugin is cleaned up after pipelines.cleanup-delay", old.ID, now.Connectors[k].Plugin,
				old.Plugin)
		default:
			continue
		}
		p.log().Warn(message, "connector_id", now.QualifiedID(old.ID), "reason", "PositionLost")
		p.event(spec.EventWarning, "PositionLost", message)
	}
}
