package catalog

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// Codes of warnings about pipelines that hold more records than a source allows, or hold them for longer.
const (
	codeWindowEndsEarly = "processor.window_ends_early"
	codeSendersGiveUp   = "connector.senders_give_up"
)

const spoolInstead = "Write the records of the source to a spool in one pipeline, and read the spool in another one " +
	"that contains this"

// holder is a processor or a destination that holds records.
type holder struct {
	path, what string
	records    int           // number of records; 0: not known
	time       time.Duration // time for which it holds them
}

// checkHeld warns of processors and destinations that hold more records than a source delivers without an
// acknowledgement, or hold them for longer than its senders wait. Only built-in sources report their limits.
func checkHeld(ctx context.Context, host *plugins.Host, p *spec.Pipeline) (problems []spec.Problem) {
	warn := func(path, code, format string, args ...any) {
		found := problem(path, code, fmt.Sprintf(format, args...))
		found.Severity = spec.SeverityWarning
		problems = append(problems, found)
	}
	common := aggregates("/processors", p.Processors)
	for i, c := range p.Connectors {
		if c.Type == spec.TypeDestination {
			path := fmt.Sprintf("/connectors/%d", i)
			common = append(common, aggregates(path+"/processors", c.Processors)...)
			size, _ := strconv.Atoi(c.Settings["sdk.batch.size"])
			if d := duration(c.Settings["sdk.batch.delay"]); d > 0 {
				common = append(common, holder{path: path + "/settings/sdk.batch.delay", what: "a batch", time: d})
			} else if size > 1 && c.Settings["sdk.batch.delay"] == "" {
				common = append(common, holder{path: path + "/settings/sdk.batch.size", what: "a batch without " +
					"sdk.batch.delay", time: math.MaxInt64})
			}
		}
	}
	for i, c := range p.Connectors {
		if c.Type != spec.TypeSource {
			continue
		}
		limit, patience := limits(ctx, host, &c)
		for _, h := range append(aggregates(fmt.Sprintf("/connectors/%d/processors", i), c.Processors), common...) {
			if limit > 0 && h.records > limit {
				warn(h.path, codeWindowEndsEarly, "%s may end early: source %q delivers no more than %d records "+
					"before they are acknowledged, so a window with more records becomes several records. %s",
					h.what, c.ID, limit, spoolInstead)
			}
			if patience > 0 && h.time >= patience {
				lasts := "may wait for more records forever"
				if h.time < math.MaxInt64 {
					lasts = "lasts " + h.time.String()
				}
				warn(h.path, codeSendersGiveUp, "%s %s, but clients of source %q wait only %v for an "+
					"acknowledgement: they give up, and send the same records again. %s", h.what, lasts, c.ID, patience,
					spoolInstead)
			}
		}
	}
	return problems
}

// aggregates returns the processors that hold the records of a window.
func aggregates(path string, declared []spec.Processor) (all []holder) {
	for i, d := range declared {
		if pluginname.Bare(d.Plugin) != "aggregate" {
			continue
		}
		h := holder{path: fmt.Sprintf("%s/%d/settings/window.size", path, i), what: "a window of " + d.ID,
			records: 4000, time: duration(d.Settings["window.size"])}
		if n, err := strconv.Atoi(d.Settings["window.records"]); err == nil {
			h.records = n
		}
		all = append(all, h)
	}
	return all
}

// duration returns the value of a setting, 0 if it is not known.
func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// limits returns how many records of a source may be unacknowledged, and how long its senders wait for an
// acknowledgement. Zero means unbounded or unknown. Settings that contain references count as their defaults.
func limits(ctx context.Context, host *plugins.Host, c *spec.Connector) (records int, patience time.Duration) {
	connector := builtinConnector(host, c.Plugin)
	if connector == nil || connector.NewSource == nil {
		return 0, 0
	}
	s := connector.NewSource()
	l, limited := s.(sdk.LimitedSource)
	a, awaited := s.(sdk.AwaitedSource)
	if !limited && !awaited {
		return 0, 0
	}
	_ = s.Configure(ctx, withoutReferences(s.Parameters(), c.Settings)) // errors are reported elsewhere
	if limited {
		records = l.MaxUnacked()
	}
	if awaited {
		patience = a.AckTimeout()
	}
	return records, patience
}
