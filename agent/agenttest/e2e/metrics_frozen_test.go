package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

var freeze = flag.Bool("freeze", false, "write testdata/metrics.txt as the metrics are")

// everything has every kind of measured object: connectors in the agent and in processes, processors in each place,
// dead letters, a failure.
const everything = `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: src, type: source, plugin: standalone:xgenerator, settings: {recordCount: 60, format.type: structured,
         format.options.id: int, format.options.name: string}, processors: [{id: a, plugin: field.set,
           settings: {field: .Metadata.a, value: x}}]}
      - {id: dst, type: destination, plugin: standalone:xfile, settings: {path: DIR/p.jsonl}}
      - id: picky
        type: destination
        plugin: builtin:file
        settings: {path: DIR/picky.txt, sdk.record.format: template, sdk.record.format.options: '{{ fail "no" }}'}
        processors: [{id: c, plugin: field.set, settings: {field: .Metadata.c, value: x}}]
    processors: [{id: b, plugin: field.set, settings: {field: .Metadata.b, value: x}}]
    dead-letter-queue: {plugin: builtin:file, settings: {path: DIR/dead.jsonl}, window-size: 0}
  - id: spooled
    connectors:
      - {id: src, type: source, plugin: builtin:generator, settings: {recordCount: 10, format.type: raw,
         format.options.id: int}}
      - {id: dst, type: destination, plugin: builtin:spool, settings: {path: DIR/spool, limit.bytes: 1000000000}}
  - id: unspooled
    connectors:
      - {id: src, type: source, plugin: builtin:spool, settings: {path: DIR/spool}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: DIR/unspooled.jsonl}, isolate: {}}
  - id: broken
    connectors:
      - {id: src, type: source, plugin: builtin:generator, settings: {rate: 100, format.type: raw,
         format.options.id: int}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: /dev/full}}
`

// The name, type and labels of every metric of the agent are frozen, because dashboards and alerts depend on them. The
// metrics include those of Conduit.
func TestMetricsAreFrozen(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
	w := startWeb(t, dir)
	w.Save("p.yaml", strings.ReplaceAll(everything, "DIR", w.Dir))
	w.Wait("records and dead letters", func() bool {
		return agenttest.LineCount(w.Path("p.jsonl")) == 60 && agenttest.LineCount(w.Path("dead.jsonl")) == 60 &&
			agenttest.LineCount(w.Path("unspooled.jsonl")) == 10
	})
	w.WaitPhase("broken", spec.PhaseRecovering, 0)
	go func() {
		_ = w.API.Inspect(t.Context(), "p:dst", nil, func(client.Message) error { return nil }) // until the test ends
	}()
	w.Wait("the inspector and a restart", func() bool {
		text := agenttest.MetricsOf(w.Agent)
		return strings.Contains(text, "conduit_inspector_sessions{") &&
			strings.Contains(text, "conduit_plugin_restarts_total{")
	})

	got := describeMetrics(agenttest.MetricsOf(w.Agent)) + describeUnreported(t)
	got = strings.Join(slices.Compact(slices.Sorted(strings.Lines(got))), "")
	if *freeze {
		if err := os.WriteFile("testdata/metrics.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	frozen, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := string(frozen)
	if runtime.GOOS != "linux" { // where metrics of processes are not available
		want = regexp.MustCompile(`(?m)^conduit_plugin_(resident_bytes|open_fds) .*\n`).ReplaceAllString(want, "")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics are not those of testdata/metrics.txt:\n%s", diff)
	}
	usedMetricsExist(t, got)
}

// usedMetricsExist checks that the dashboard and the alert rules use existing metrics only.
func usedMetricsExist(t *testing.T, described string) {
	used := map[string]bool{}
	shown := string(telemetry.Dashboard()) + string(telemetry.Alerts(telemetry.AlertRules()))
	for _, name := range regexp.MustCompile(`\bconduit_\w+`).FindAllString(shown, -1) {
		used[strings.TrimSuffix(name, "_bucket")] = true
	}
	if len(used) < 25 {
		t.Errorf("only %d metrics are used: %v", len(used), used)
	}
	for name := range used {
		if !strings.Contains("\n"+described, "\n"+name+" ") {
			t.Errorf("%s is used, and there is no such metric", name)
		}
	}
}

// describeUnreported describes, from their declarations, the metrics that this test does not produce: those of sources
// that report on their systems, of cluster members and of certificates.
func describeUnreported(t *testing.T) string {
	source, err := os.ReadFile("../../telemetry/descriptors.go")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../../telemetry/metric.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, m := range regexp.MustCompile(
		`(?m)^\t(\w+) += `+
			`"(conduit_(?:source_(?:behind_\w+|warning|snapshot_\w+)|cluster_\w+|notifications_total|`+
			`pipeline_silent|telemetry_exported_total|api_certificate_\w+))"`).
		FindAllStringSubmatch(string(table), -1) {
		found := regexp.MustCompile(`(?s)desc\(` + m[1] + `,\s+"[^"]*"(?:\s\+\s+"[^"]*")*(.*?)\)\n`).
			FindStringSubmatch(string(source))
		if found == nil {
			t.Fatalf("%s is not described", m[1])
		}
		kind := "gauge"
		if strings.HasSuffix(m[2], "_total") {
			kind = "counter"
		}
		labels := strings.Fields(strings.NewReplacer(`"`, "", ",", " ").Replace(found[1]))
		slices.Sort(labels)
		fmt.Fprintln(&all, strings.Join(append([]string{m[2], kind}, labels...), " "))
	}
	return all.String()
}

// Every declared metric is in the table.
func TestFrozenMetricsAreAll(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../telemetry/metric.go")
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`= "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(declared) != strings.Count(string(frozen), "\n") {
		t.Errorf("%d metrics are declared, %d in the table", len(declared), strings.Count(string(frozen), "\n"))
	}
	for _, found := range declared {
		if !strings.Contains("\n"+string(frozen), "\n"+found[1]+" ") {
			t.Errorf("testdata/metrics.txt lacks %s", found[1])
		}
	}
}

// describeMetrics returns a line for each metric with its type and labels, without the metrics of the Go runtime and of
// the process, which come from the client library.
func describeMetrics(text string) string {
	types := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
		types[found[1]] = found[2]
	}
	labels := map[string]map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(text, -1) {
		name := found[1]
		if types[name] == "" {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		}
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(found[2], -1) {
			labels[name][label[1]] = true
		}
		delete(labels[name], "le")
	}
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			fmt.Fprintln(&all, strings.Join(append([]string{name, types[name]},
				slices.Sorted(maps.Keys(labels[name]))...), " "))
		}
	}
	return all.String()
}

// The size of a record is counted as in Conduit: its key and its payload, raw data as it is, structured data in Avro if
// it has a schema and otherwise in JSON. Every record counts once, however many records a call moves.
func TestMetricsCountBytesOfContent(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
	a := agenttest.Start(t, dir)
	avro := avroOf(t)
	raw := func(after json.RawMessage) (b []byte) {
		if err := json.Unmarshal(after, &b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	text := func(after json.RawMessage) []byte { return after }
	for id, c := range map[string]contentCase{
		"avro": {"builtin:generator", "builtin:file", "format.type: structured", avro},
		"json": {"builtin:generator", "builtin:file",
			"format.type: structured, sdk.schema.extract.payload.enabled: false", text},
		"raw":       {"builtin:generator", "builtin:file", "format.type: raw", raw},
		"processes": {"standalone:xgenerator", "standalone:xfile", "format.type: structured", avro},
		"mixed":     {"standalone:xgenerator", "builtin:file", "format.type: structured", avro},
	} {
		path := a.Path(id + ".jsonl")
		a.Save(id+".yaml", fmt.Sprintf(`{version: "2.2", pipelines: [{id: %s, connectors: [
			{id: in, type: source, plugin: %s, settings: {recordCount: 60, format.options.id: int, format.options.name: string,
			  %s}},
			{id: out, type: destination, plugin: %s, settings: {path: %s}}]}]}`, id, c.source, c.settings, c.destination, path))
		a.Wait(id, func() bool { return agenttest.LineCount(path) == 60 })
		want := c.bytesOf(t, path)
		for connector, plugin := range map[string]string{"in:source": c.source, "out:destination": c.destination} {
			name, typ, _ := strings.Cut(connector, ":")
			labels := fmt.Sprintf(
				`{component_id="%[1]s:%[2]s",pipeline_id="%[1]s",pipeline_name="%[1]s",plugin="%[3]s",type="%[4]s"}`,
				id, name, plugin, typ)
			counted := func() float64 {
				return agenttest.Scrape(t, a, "conduit_connector_execution_duration_seconds_count"+labels)
			}
			a.Wait("the last write to be counted", func() bool { return counted() >= 60 })
			if n := counted(); n != 60 {
				t.Errorf("%s: %s counts %v calls, want one for each record", id, connector, n)
			}
			if got := agenttest.Scrape(t, a, "conduit_connector_bytes_sum"+labels); int(got) != want ||
				got != agenttest.Scrape(t, a, "conduit_connector_bytes_total"+labels) {
				t.Errorf("%s: %s counts %v bytes, want %d", id, connector, got, want)
			}
		}
	}
}

// contentCase is a pipeline of two plugins, and the record that its source makes of the content that the destination
// writes as after.
type contentCase struct {
	source, destination, settings string
	content                       func(after json.RawMessage) []byte
}

// bytesOf returns how many bytes the keys and contents of the records in a file had when they
// were read.
func (c *contentCase) bytesOf(t *testing.T, path string) (n int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var r struct {
			Key     []byte
			Payload struct{ After json.RawMessage }
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		n += len(r.Key) + len(c.content(r.Payload.After))
	}
	return n
}

// avroOf returns a function that encodes records with an id and a name.
func avroOf(t *testing.T) func(after json.RawMessage) []byte {
	codec,
		err := schema.Parse(
		`{"type":"record","name":"r","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	return func(after json.RawMessage) []byte {
		var v struct {
			ID   int64
			Name string
		}
		if err := json.Unmarshal(after, &v); err != nil {
			t.Fatal(err)
		}
		b, err := codec.Append(nil, map[string]any{"id": v.ID, "name": v.Name})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}
