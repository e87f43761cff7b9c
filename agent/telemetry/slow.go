package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// A stage is slow when it is busy for slowShare of the time. If no stage is, destinations are slow when sources wait
// for space for blockedShare of the time.
const (
	slowShare    = 0.9
	blockedShare = 0.5
)

// markSlow marks the stages that hold the pipeline back: busy processors and destinations; or else destinations that
// do not settle their records, which calls do not show; or else sources for which destinations wait while records
// arrive.
func (h *history) markSlow(all *spec.PipelineRates, kept []int, seconds float64) {
	var sources, destinations, slow []string // by qualified id
	blocked := false
	for _, s := range h.stages {
		isSlow := all.Stages[s.id].Busy >= slowShare
		switch s.typ {
		case spec.TypeSource:
			sources = append(sources, s.id)
			blocked = blocked || s.share(kept, seconds, func(c counters) passed { return c.blocked }) >= blockedShare
			continue
		case spec.TypeDestination:
			destinations = append(destinations, s.id)
		}
		if isSlow {
			slow = append(slow, s.id)
		}
	}
	switch {
	case len(slow) > 0:
	case blocked:
		slow = busiest(all, destinations)
	default:
		for _, id := range sources {
			if one := all.Stages[id]; one.Busy >= slowShare && one.Records > 0 {
				mark(all, id, destinations, "destinations")
			}
		}
	}
	for _, id := range slow {
		mark(all, id, sources, "sources")
	}
}

// busiest returns the busiest stage of ids, none if ids is empty.
func busiest(all *spec.PipelineRates, ids []string) []string {
	slices.Sort(ids)
	if len(ids) == 0 {
		return nil
	}
	return []string{slices.MaxFunc(ids, func(a, b string) int {
		return cmp.Compare(all.Stages[a].Busy, all.Stages[b].Busy)
	})}
}

// mark marks a stage as slow, with the ids and kind of the stages that wait for it.
func mark(all *spec.PipelineRates, id string, waiting []string, kind string) {
	names := make([]string, len(waiting))
	for i, w := range waiting {
		names[i] = strings.TrimPrefix(w, all.ID+":")
	}
	slices.Sort(names)
	one := all.Stages[id]
	switch own := strings.TrimPrefix(id, all.ID+":"); len(names) {
	case 0:
		return
	case 1:
		one.Slow = fmt.Sprintf("%s waits for %s", names[0], own)
	case 2:
		one.Slow = fmt.Sprintf("%s and %s wait for %s", names[0], names[1], own)
	default:
		one.Slow = fmt.Sprintf("%d %s wait for %s", len(names), kind, own)
	}
	all.Stages[id] = one
}

// markStuck marks the stages that work and make no progress instead of the slow ones: the state of other stages is
// then a consequence. It does nothing if there are none.
func markStuck(all *spec.PipelineRates, stages []delivery.Stage) {
	connectors := map[spec.StageKind][]string{} // qualified ids by kind
	var stuck []delivery.Stage
	for _, s := range stages {
		connectors[s.Kind] = append(connectors[s.Kind], s.ID)
		switch s.Doing {
		case measure.Opening, measure.Acking, measure.Writing, measure.Processing:
			if all.Stages[s.ID].Since != nil {
				stuck = append(stuck, s)
			}
		}
	}
	if len(stuck) == 0 {
		return
	}
	for id, one := range all.Stages {
		one.Slow = ""
		all.Stages[id] = one
	}
	for _, s := range stuck {
		if s.Kind == spec.StageSource {
			mark(all, s.ID, connectors[spec.StageDestination], "destinations")
		} else {
			mark(all, s.ID, connectors[spec.StageSource], "sources")
		}
	}
}
