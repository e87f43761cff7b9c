package monitoring

import (
	"encoding/json"
	"fmt"

	"github.com/conduit-agent/conduit/agent/telemetry/metric"
)

// Panel is a part of the dashboard: queries, with what each series of theirs is called.
type Panel struct {
	Title   string
	Kind    string // of Grafana: timeseries, stat, table
	Unit    string // of Grafana
	Width   int    // of 24
	Help    string
	Queries []Query
}

// Query is an expression of PromQL, in which Grafana replaces its variables.
type Query struct{ Expr, Legend string }

const (
	of       = `{instance=~"$instance",pipeline_id=~"$pipeline"}`
	ofAgent  = `{instance=~"$instance"}`
	pipeline = "{{pipeline_id}}"
)

// where adds a matcher to those of a pipeline.
func where(matcher string) string { return of[:len(of)-1] + "," + matcher + "}" }

// perSecond is the rate of a counter, by labels.
func perSecond(counter, selector, by string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s%s[$__rate_interval]))", by, counter, selector)
}

// quantile is the 99th percentile of a histogram, by labels.
func quantile(histogram, selector, by string) string {
	return fmt.Sprintf("histogram_quantile(0.99, sum by (le, %s) (rate(%s_bucket%s[$__rate_interval])))", by, histogram, selector)
}

// Panels returns the panels of the dashboard, what needs attention first.
func Panels() []Panel {
	one := func(expr, legend string) []Query { return []Query{{expr, legend}} }
	return []Panel{
		{"Pipelines", "stat", "none", 12, "Number of pipelines by status.", one("sum by (status) ("+metric.Pipelines+ofAgent+")", "{{status}}")},
		{"Degraded or failing", "table", "none", 12, "3 is degraded, 4 recovering: conduit status says why.", one(metric.PipelineStatus+of+" >= 3", pipeline)},
		{"Records read", "timeseries", "cps", 12, "By the sources of each pipeline.", one(perSecond(metric.Records, where(`type="source"`), "pipeline_id"), pipeline)},
		{"Records written", "timeseries", "cps", 12, "By each destination.", one(perSecond(metric.Records, where(`type="destination"`), "component_id"), "{{component_id}}")},
		{"Bytes read", "timeseries", "Bps", 12, "Keys and payloads.", one(perSecond(metric.Bytes, where(`type="source"`), "pipeline_id"), pipeline)},
		{"Refused and filtered", "timeseries", "cps", 12, "Refused records are dead letters; filtered ones were dropped by processors.", []Query{
			{perSecond(metric.NackedRecords, of, "component_id"), "{{component_id}} refused"}, {perSecond(metric.FilteredRecords, of, "component_id"), "{{component_id}} filtered"}}},
		{"Oldest record not acknowledged", "timeseries", "s", 12, "Grows while a destination does not settle.", one(metric.OldestUnacked+of, "{{component_id}}")},
		{"Read to written, 99th percentile", "timeseries", "s", 12, "", one(quantile(metric.PipelineSeconds, of, "pipeline_id"), pipeline)},
		{"Behind its system", "timeseries", "s", 12, "Age of the newest data that a source read.", one(metric.BehindSeconds+of, "{{component_id}}")},
		{"Behind its system, records and bytes", "timeseries", "short", 12, "What the system of a source holds and the source has not confirmed.", []Query{
			{metric.BehindRecords + of, "{{component_id}} records"}, {metric.BehindBytes + of, "{{component_id}} bytes"}}},
		{"Not delivering", "timeseries", "s", 12, "Since when pipelines deliver nothing: conduit status names the " +
			"stage that holds them up.", one(metric.NotDelivering+of+" > 0", pipeline)},
		{"Failures in a row", "timeseries", "none", 12, "", one(metric.PipelineFailures+of+" > 0", pipeline)},
		{"Dead letters kept", "timeseries", "none", 12, "conduit dlq ls lists them.", one(metric.DeadLetters+of, pipeline)},
		{"Silent", "timeseries", "bool", 8, "Pipelines with max-silence that read nothing.", one(metric.PipelineSilent+of, pipeline)},
		{"Files with problems", "timeseries", "none", 8, "The last good versions run.", one(metric.FilesWithProblems+ofAgent, "{{instance}}")},
		{"Versions that were tried", "timeseries", "cps", 8, "", one(perSecond(metric.ReconcileAttempts, ofAgent, "result"), "{{result}}")},
		{"fsync, 99th percentile", "timeseries", "s", 8, "Sources are acknowledged only after it.", one(quantile(metric.FsyncSeconds, ofAgent, "instance"), "{{instance}}")},
		{"Memory for records", "timeseries", "bytes", 8, "", []Query{{metric.MemoryRecordsUsed + ofAgent, "{{instance}} used"}, {metric.MemoryRecords + ofAgent, "{{instance}} all"}}},
		{"Sources that wait for memory", "timeseries", "none", 8, "", one(metric.MemoryWaiting+ofAgent, "{{instance}}")},
		{"Spools", "timeseries", "bytes", 8, "On disk.", one(metric.SpoolBytes+ofAgent, "{{path}}")},
		{"Connectors started again", "timeseries", "cps", 8, "", one(perSecond(metric.PluginRestarts, ofAgent, "plugin"), "{{plugin}}")},
		{"Memory of connectors' processes", "timeseries", "bytes", 8, "", one(metric.PluginResident+ofAgent, "{{component_id}}")},
		{"Cluster: members and claim lag", "timeseries", "none", 12, "", []Query{{metric.ClusterMembers + ofAgent, "{{instance}} members"}, {metric.ClusterLag + ofAgent, "{{instance}} lag in seconds"}}},
		{"Notifications", "timeseries", "cps", 12, "", one(perSecond(metric.Notifications, ofAgent, "target, result"), "{{target}} {{result}}")},
	}
}

type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

const panelHeight = 8

// Dashboard returns a dashboard of Grafana, for its import.
func Dashboard() []byte {
	var panels []object
	x, y := 0, 0
	for i, p := range Panels() {
		if x+p.Width > 24 {
			x, y = 0, y+panelHeight
		}
		var targets []object
		for j, q := range p.Queries {
			targets = append(targets, object{"refId": string(rune('A' + j)), "expr": q.Expr, "legendFormat": q.Legend, "datasource": source, "instant": p.Kind != "timeseries"})
		}
		panels = append(panels, object{
			"id": i + 1, "title": p.Title, "description": p.Help, "type": p.Kind, "datasource": source, "targets": targets,
			"gridPos":     object{"x": x, "y": y, "w": p.Width, "h": panelHeight},
			"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0}, "overrides": []object{}},
		})
		x += p.Width
	}
	text, err := json.MarshalIndent(object{
		"uid": "conduit", "title": "conduit", "tags": []string{"conduit"}, "schemaVersion": 39, "refresh": "30s", "editable": true,
		"time": object{"from": "now-3h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
			variable("instance", metric.Info, "instance"), variable("pipeline", metric.PipelineStatus+ofAgent, "pipeline_id"),
		}},
	}, "", "  ")
	if err != nil {
		panic(err) // it is texts and numbers
	}
	return append(text, '\n')
}

// variable lets a viewer select some of the values of a label.
func variable(name, of, label string) object {
	return object{"name": name, "type": "query", "datasource": source, "query": fmt.Sprintf("label_values(%s, %s)", of, label),
		"multi": true, "includeAll": true, "allValue": ".*", "refresh": 2, "current": object{"text": "All", "value": "$__all"}}
}
