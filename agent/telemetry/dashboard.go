package telemetry

import (
	"encoding/json"
	"fmt"
)

// Panel is a part of the dashboard: queries, with the name of each series.
type Panel struct {
	Title   string
	Kind    string // type in Grafana: timeseries, stat, table
	Unit    string // unit in Grafana
	Width   int    // columns out of 24
	Help    string
	Queries []Query
}

// Query is an expression of PromQL with variables of Grafana.
type Query struct{ Expr, Legend string }

const (
	ofConnector      = `{instance=~"$instance",pipeline_id=~"$pipeline"}`
	ofAgent          = `{instance=~"$instance"}`
	pipelineSelector = "{{pipeline_id}}"
)

// promWhere adds a matcher to the matchers of a pipeline.
func promWhere(matcher string) string { return ofConnector[:len(ofConnector)-1] + "," + matcher + "}" }

// promPerSecond is the rate of a counter, by labels.
func promPerSecond(counter, selector, by string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s%s[$__rate_interval]))", by, counter, selector)
}

// promQuantile is the 99th percentile of a histogram, by labels.
func promQuantile(histogram, selector, by string) string {
	return fmt.Sprintf(
		"histogram_quantile(0.99, sum by (le, %s) (rate(%s_bucket%s[$__rate_interval])))", by, histogram, selector,
	)
}

// Panels returns the panels of the dashboard, most urgent first.
func Panels() []Panel {
	one := func(expr, legend string) []Query { return []Query{{expr, legend}} }
	return []Panel{
		{
			"Pipelines", "stat", "none", 12, "Number of pipelines by status.",
			one("sum by (status) ("+Pipelines+ofAgent+")", "{{status}}"),
		},
		{"Degraded or failing", "table", "none", 12, "3 is degraded, 4 recovering: conduit status says why.",
			one(PipelineStatus+ofConnector+" >= 3", pipelineSelector)},
		{"Records read", "timeseries", "cps", 12, "By the sources of each pipeline.",
			one(promPerSecond(Records, promWhere(`type="source"`), "pipeline_id"), pipelineSelector)},
		{"Records written", "timeseries", "cps", 12, "By each destination.",
			one(promPerSecond(Records, promWhere(`type="destination"`), "component_id"), "{{component_id}}")},
		{"Bytes read", "timeseries", "Bps", 12, "Keys and payloads.",
			one(promPerSecond(Bytes, promWhere(`type="source"`), "pipeline_id"), pipelineSelector)},
		{
			"Refused and filtered", "timeseries", "cps", 12,
			"Refused records are dead letters; filtered ones were dropped by processors.",
			[]Query{
				{promPerSecond(NackedRecords, ofConnector, "component_id"), "{{component_id}} refused"},
				{promPerSecond(FilteredRecords, ofConnector, "component_id"), "{{component_id}} filtered"}},
		},
		{"Oldest record not acknowledged", "timeseries", "s", 12, "Grows while a destination does not settle.",
			one(OldestUnacked+ofConnector, "{{component_id}}")},
		{"Read to written, 99th percentile", "timeseries", "s", 12, "",
			one(promQuantile(PipelineSeconds, ofConnector, "pipeline_id"), pipelineSelector)},
		{"Behind its system", "timeseries", "s", 12, "Age of the newest data that a source has read.",
			one(BehindSeconds+ofConnector, "{{component_id}}")},
		{
			"Behind its system, records and bytes", "timeseries", "short", 12,
			"Data that the system of a source holds and the source has not confirmed.",
			[]Query{
				{BehindRecords + ofConnector, "{{component_id}} records"},
				{BehindBytes + ofConnector, "{{component_id}} bytes"}},
		},
		{"Not delivering", "timeseries", "s", 12, "Since when pipelines deliver nothing: conduit status names the " +
			"stage that holds them up.", one(NotDelivering+ofConnector+" > 0", pipelineSelector)},
		{"Failures in a row", "timeseries", "none", 12, "",
			one(PipelineFailures+ofConnector+" > 0", pipelineSelector)},
		{"Dead letters kept", "timeseries", "none", 12, "conduit dlq ls lists them.",
			one(DeadLetters+ofConnector, pipelineSelector)},
		{"Silent", "timeseries", "bool", 8, "Pipelines with max-silence that read nothing.",
			one(PipelineSilent+ofConnector, pipelineSelector)},
		{
			"Files with problems", "timeseries", "none", 8, "The last known good versions run.",
			one(FilesWithProblems+ofAgent, "{{instance}}"),
		},
		{"Attempts to run a version", "timeseries", "cps", 8, "",
			one(promPerSecond(ReconcileAttempts, ofAgent, "result"), "{{result}}")},
		{"fsync, 99th percentile", "timeseries", "s", 8, "Sources are acknowledged only after it.",
			one(promQuantile(FsyncSeconds, ofAgent, "instance"), "{{instance}}")},
		{
			"Memory for records", "timeseries", "bytes", 8, "",
			[]Query{
				{MemoryRecordsUsed + ofAgent, "{{instance}} used"}, {MemoryRecords + ofAgent, "{{instance}} all"},
			},
		},
		{"Sources that wait for memory", "timeseries", "none", 8, "", one(MemoryWaiting+ofAgent, "{{instance}}")},
		{"Spools", "timeseries", "bytes", 8, "On disk.", one(SpoolBytes+ofAgent, "{{path}}")},
		{"Connectors restarted", "timeseries", "cps", 8, "",
			one(promPerSecond(PluginRestarts, ofAgent, "plugin"), "{{plugin}}")},
		{
			"Memory of connectors' processes", "timeseries", "bytes", 8, "",
			one(PluginResident+ofAgent, "{{component_id}}"),
		},
		{
			"Cluster: members and claim lag", "timeseries", "none", 12, "",
			[]Query{
				{ClusterMembers + ofAgent, "{{instance}} members"},
				{ClusterLag + ofAgent, "{{instance}} lag in seconds"},
			},
		},
		{"Notifications", "timeseries", "cps", 12, "",
			one(promPerSecond(Notifications, ofAgent, "target, result"), "{{target}} {{result}}")},
	}
}

type jsonObject = map[string]any

var datasource = jsonObject{"type": "prometheus", "uid": "${datasource}"}

const panelHeight = 8

// Dashboard returns a dashboard to import into Grafana.
func Dashboard() []byte {
	var panels []jsonObject
	x, y := 0, 0
	for i, p := range Panels() {
		if x+p.Width > 24 {
			x, y = 0, y+panelHeight
		}
		var targets []jsonObject
		for j, q := range p.Queries {
			targets = append(targets, jsonObject{"refId": string(rune('A' + j)), "expr": q.Expr,
				"legendFormat": q.Legend,
				"datasource":   datasource, "instant": p.Kind != "timeseries"})
		}
		panels = append(panels, jsonObject{
			"id": i + 1, "title": p.Title, "description": p.Help, "type": p.Kind, "datasource": datasource,
			"targets":     targets,
			"gridPos":     jsonObject{"x": x, "y": y, "w": p.Width, "h": panelHeight},
			"fieldConfig": jsonObject{"defaults": jsonObject{"unit": p.Unit, "min": 0}, "overrides": []jsonObject{}},
		})
		x += p.Width
	}
	text, err := json.MarshalIndent(jsonObject{
		"uid": "conduit", "title": "conduit", "tags": []string{"conduit"},
		"schemaVersion": 39, "refresh": "30s", "editable": true,
		"time": jsonObject{"from": "now-3h", "to": "now"}, "panels": panels,
		"templating": jsonObject{"list": []jsonObject{
			{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
			dashboardVariable("instance", Info, "instance"),
			dashboardVariable("pipeline", PipelineStatus+ofAgent, "pipeline_id"),
		}},
	}, "", "  ")
	if err != nil {
		panic(err) // the values are all text and numbers
	}
	return append(text, '\n')
}

// dashboardVariable lets a viewer select some values of a label.
func dashboardVariable(name, metric, label string) jsonObject {
	return jsonObject{"name": name, "type": "query", "datasource": datasource,
		"query": fmt.Sprintf("label_values(%s, %s)", metric, label),
		"multi": true, "includeAll": true, "allValue": ".*", "refresh": 2,
		"current": jsonObject{"text": "All", "value": "$__all"}}
}
