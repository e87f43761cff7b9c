package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// writeStages writes a table of the stages of a pipeline, in the order in which records pass them, names the stage that
// the others wait for, and tells whether lines pass on the raw lane.
func writeStages(r *Remote, to io.Writer, rates *spec.PipelineRates) error {
	fmt.Fprintln(to)
	if err := stageTable(rates).Write(to, r.Paint); err != nil {
		return err
	}
	for _, id := range stagesInOrder(rates) {
		if slow := rates.Stages[id].Slow; slow != "" {
			fmt.Fprintf(to, "%s %s\n", r.Paint("slow:", terminal.Yellow), slow)
		}
		if b := rates.Stages[id].Backlog; b != nil {
			fmt.Fprintf(to, "isolated %s: %s %s\n", strings.TrimPrefix(id, rates.ID+":"), b.Text,
				r.Paint(terminal.OneError(b.Error), terminal.Yellow))
		}
		if lane := rates.Stages[id].RawLane; lane != "" {
			fmt.Fprintf(to, "raw lane of %s: %s\n", strings.TrimPrefix(id, rates.ID+":"), lane)
		}
	}
	return nil
}

// kindOrder is the order in which records pass the kinds of stages.
var kindOrder = map[spec.StageKind]int{
	spec.StageSource: 0, spec.StageProcessor: 1, spec.StageDestination: 2, spec.StageQueue: 3,
}

func stagesInOrder(rates *spec.PipelineRates) []string {
	ids := slices.Collect(maps.Keys(rates.Stages))
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(kindOrder[rates.Stages[a].Kind]-kindOrder[rates.Stages[b].Kind], strings.Compare(a, b))
	})
	return ids
}

func stageTable(rates *spec.PipelineRates) *terminal.Table {
	t := &terminal.Table{}
	t.Add("STAGE", "KIND", "IN/S", "OUT/S", "OUTSTANDING", "DOING", "NOTHING SINCE", "LAST ERROR")
	for _, id := range stagesInOrder(rates) {
		s := rates.Stages[id]
		since := "-"
		if s.Since != nil {
			since = terminal.Moment(*s.Since)
		}
		text := terminal.OneError(s.Error)
		if s.Errors > 1 {
			text += fmt.Sprintf(" (%d times)", s.Errors)
		}
		t.Add(strings.TrimPrefix(id, rates.ID+":"), string(s.Kind), rateWords(&s.In), rateWords(&s.Out), s.Outstanding,
			terminal.Dash(strings.Trim(s.Doing+", "+s.Waiting, ", ")), since,
			terminal.Colored(cmp.Or(text, "-"), terminal.Red))
	}
	return t
}
