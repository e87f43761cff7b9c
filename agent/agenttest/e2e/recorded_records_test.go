package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// recordedPipeline is a pipeline that was run by a real Conduit with its built-in connectors, and whose first lines of
// output are in testdata/records.txt, normalized.
type recordedPipeline struct {
	source, destination string // settings other than the generated fields and the paths
	fields              string // of generated records, a letter each
	count               int    // lines of the output; more than were recorded if operations are random
	random              bool   // operations are picked at random
}

const structured, lineFile = "format.type: structured", "builtin:file"

var recordedPipelines = map[string]recordedPipeline{
	"colls": {source: `collections.users.format.type: structured, collections.users.format.options.id: int,
		collections.users.operations: create,
		collections.orders.format.type: raw, collections.orders.format.options.p: string,
		collections.orders.operations: "create,update,delete"`, count: 200, random: true},
	"context": {source: structured + ", sdk.schema.context.name: ctx1", fields: "inbtd", count: 4},
	"dlq": {source: structured,
		destination: `sdk.record.format: template, sdk.record.format.options: '{{ fail "full" }}'`, fields: "inbtd",
		count: 4},
	"dstbatch": {source: structured, destination: `sdk.batch.size: 10, sdk.batch.delay: 50ms`, fields: "inbtd",
		count: 25},
	"dstrate": {source: structured, destination: `sdk.rate.perSecond: 200, sdk.rate.burst: 5`, fields: "inbtd",
		count: 60},
	"file2file": {source: lineFile, count: 5},
	"file2file_enc": {source: lineFile +
		`, sdk.schema.extract.payload.enabled: true, sdk.schema.extract.key.enabled: true`, count: 5},
	"file2file_tpl": {source: lineFile,
		destination: `sdk.record.format: template, sdk.record.format.options: '{{ printf "%s" .Payload.After }}'`,
		count:       5},
	"filefmt": {source: `format.type: file, format.options.path: DIR/in/doc.json`, count: 2},
	"fmt_bad": {source: structured, destination: `sdk.record.format: nope`, fields: "inbtd"},
	"fmt_debezium": {source: structured + `, operations: "create,update,delete,snapshot"`,
		destination: `sdk.record.format: debezium/json`, fields: "inb", count: 200, random: true},
	"fmt_debezium_opt": {source: structured,
		destination: `sdk.record.format: debezium/json, sdk.record.format.options: debezium.schema.name=my.schema`,
		fields:      "inb", count: 4},
	"fmt_debezium_raw": {source: `format.type: raw`, destination: `sdk.record.format: debezium/json`, fields: "i",
		count: 2},
	"fmt_opencdc": {source: structured, destination: `sdk.record.format: opencdc/json`, fields: "inbtd", count: 4},
	"fmt_tpl": {source: structured, destination: `sdk.record.format: template,
		sdk.record.format.options: '{{ .Operation }} {{ printf "%s" .Position }} {{ len .Payload.After }} ` +
		`{{ .Metadata | len }}'`,
		fields: "inbtd", count: 4},
	"fmt_tpl_bad": {source: structured,
		destination: `sdk.record.format: template, sdk.record.format.options: '{{ .Nope.X'`, fields: "inbtd"},
	"fmt_tpl_sprig": {source: structured, destination: `sdk.record.format: template,
		sdk.record.format.options: '{{ "x" | upper | repeat 3 }} {{ index .Metadata "opencdc.payload.schema.subject" }} ` +
		`{{ typeOf .Payload.After.id }} {{ toJson .Operation }}'`,
		fields: "inbtd", count: 4},
	"nocontext": {source: structured + `, sdk.schema.context.enabled: false`, fields: "inbtd", count: 4},
	"nodecode": {source: structured, destination: `sdk.schema.extract.payload.enabled: false, ` +
		`sdk.schema.extract.key.enabled: false`, fields: "inbtd", count: 4},
	"noschema": {source: structured +
		`, sdk.schema.extract.payload.enabled: false, sdk.schema.extract.key.enabled: false`, fields: "inb", count: 4},
	"ops": {source: structured + `, operations: "create,update,delete,snapshot"`, fields: "inbtd", count: 200,
		random: true},
	"raw":      {source: `format.type: raw`, fields: "in", count: 4},
	"srcbatch": {source: structured + `, sdk.batch.size: 10, sdk.batch.delay: 50ms`, fields: "inbtd", count: 25},
	"struct":   {source: structured, fields: "inbtd", count: 4},
	"subject": {source: structured + `, sdk.schema.extract.payload.subject: foo, sdk.schema.extract.key.subject: bar`,
		fields: "inbtd", count: 4},
}

// file returns the pipeline file; the output goes to DIR/out/ID.
func (p *recordedPipeline) file(id, dir string) string {
	plugin, settings := "builtin:generator", []string{p.source}
	if rest, ok := strings.CutPrefix(p.source, lineFile); ok {
		plugin, settings = lineFile, []string{"path: DIR/in/lines.txt" + rest}
	} else {
		settings = append(settings, fmt.Sprintf("recordCount: %d", max(p.count, 1)))
	}
	for _, letter := range p.fields {
		field := map[rune]string{'i': "id: int", 'n': "name: string", 'b': "b: bool", 't': "t: time",
			'd': "d: duration"}[letter]
		settings = append(settings, "format.options."+field)
	}
	path := "path: DIR/out/" + id
	deadLetters := ""
	if id == "dlq" {
		deadLetters = fmt.Sprintf(", dead-letter-queue: {plugin: builtin:file, settings: {%s}, window-size: 0, "+
			"window-nack-threshold: 0}", path)
		path = "path: DIR/out/refused"
	}
	destination := strings.Trim(path+", "+p.destination, ", ")
	text := fmt.Sprintf("version: \"2.2\"\npipelines:\n- {id: %s, connectors: [\n  {id: in, type: source, plugin: "+
		"%s, settings: {%s}},\n  {id: out, type: destination, plugin: builtin:file, settings: {%s}}]%s}\n",
		id, plugin, strings.Join(settings, ", "), destination, deadLetters)
	return strings.ReplaceAll(text, "DIR", dir)
}

// Records are written byte for byte as a real Conduit writes them, except for times, ids and generated values. The
// table of spec/README.md lists the deliberate differences: the position of the file source and of a generator of
// several collections, dead letters of structured records, large numbers in raw JSON, and formats that a real Conduit
// replaces by JSON.
func TestRecordedRecords(t *testing.T) {
	t.Parallel()
	recorded := recordedLines(t)
	a := agenttest.Start(t, "")
	writeInput(t, a)
	for id, p := range recordedPipelines {
		a.Save(id+".yaml", p.file(id, a.Dir))
	}
	for id, p := range recordedPipelines {
		t.Run(id, func(t *testing.T) {
			if p.count == 0 {
				a.WaitPhase(id, spec.PhaseDegraded, 0)
				if err := a.State(id).LastAttempt.Error; !strings.HasPrefix(err, id+".yaml:5:") {
					t.Errorf("error %q does not begin with the place in the file", err)
				}
				if content, err := os.ReadFile(a.Path("out/" + id)); err == nil && len(content) > 0 {
					t.Errorf("it wrote %s", content)
				}
				return
			}
			path := a.Path("out/" + id)
			a.Wait("all records", func() bool { return agenttest.LineCount(path) >= p.count })
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(content)) {
				got = append(got, normalize(t, id, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), a.Dir+"/", "")))
			}
			if len(got) != p.count {
				t.Errorf("%d lines, want %d", len(got), p.count)
			}
			want := recorded[id]
			if p.random {
				got, want = likeRecorded(got, want)
			}
			if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
				t.Errorf("- recorded, + here:\n%s", diff)
			}
		})
	}
}

func writeInput(t *testing.T, a *agenttest.Agent) {
	t.Helper()
	var text strings.Builder
	for i := range 5 {
		fmt.Fprintf(&text, "line %d \"quoted\" <&> ünï\n", i)
	}
	for name, content := range map[string]string{"in/lines.txt": text.String(),
		"in/doc.json": `{"a":1,"b":"x","c":[1,2]}`, "out/.keep": ""} {
		if err := os.MkdirAll(filepath.Dir(a.Path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(a.Path(name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// recordedLines returns the lines of testdata/records.txt by pipeline.
func recordedLines(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, id := map[string][]string{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "== "); ok {
			id = name
			all[id] = []string{}
		} else {
			all[id] = append(all[id], line)
		}
	}
	for id, p := range recordedPipelines {
		if (len(all[id]) == 0) == (p.count > 0) {
			t.Fatalf("%d lines of %s are recorded", len(all[id]), id)
		}
	}
	return all
}

// likeRecorded returns one line of each recorded form, and the recorded lines, both without positions and in the same
// order.
func likeRecorded(got, want []string) (forms, recorded []string) {
	position := regexp.MustCompile(`"position":b64"[^"]*",`)
	without := func(lines []string) (all []string) {
		for _, line := range lines {
			all = append(all, position.ReplaceAllString(line, ""))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	kind := regexp.MustCompile(`"(operation|opencdc.collection|op)":"\w+"`)
	kinds := map[string]bool{}
	recorded = without(want)
	for _, line := range recorded {
		kinds[fmt.Sprint(kind.FindAllString(line, -1))] = true
	}
	for _, line := range without(got) {
		if kinds[fmt.Sprint(kind.FindAllString(line, -1))] {
			forms = append(forms, line)
		}
	}
	return forms, recorded
}

// generated matches the values that the generator makes up, and times.
var generated = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`"(opencdc\.createdAt|opencdc\.readAt)":"\d{19}"`), `"$1":"TIME"`},
	{regexp.MustCompile(`"b":(?:true|false)\b`), `"b":BOOL`},
	{regexp.MustCompile(`"d":(?:\d{1,3}000000000|0)\b`), `"d":DURATION`},
	{regexp.MustCompile(`"id":\d{10,19}\b`), `"id":INT`},
	{regexp.MustCompile(`"(name|p)":"[A-Za-z-]+"([,}])`), `"$1":"WORD"$2`},
	{regexp.MustCompile(`"t":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z"`), `"t":"TIME"`},
	{regexp.MustCompile(`"ts_ms":\d{13}\b`), `"ts_ms":TIME`},
}

var (
	encoded = regexp.MustCompile(`"(key|before|after|position)":"([A-Za-z0-9+/]*=*)"`)
	word    = regexp.MustCompile(`^[A-Za-z-]+$`)
)

// normalize replaces times and generated values, decodes base64, and sorts the fields of schemas, which a real Conduit
// writes in random order.
func normalize(t *testing.T, id, line string) string {
	t.Helper()
	line = encoded.ReplaceAllStringFunc(line, func(match string) string {
		parts := encoded.FindStringSubmatch(match)
		return fmt.Sprintf(`"%s":%s`, parts[1], decoded(t, parts[1], parts[2]))
	})
	for _, g := range generated {
		line = g.is.ReplaceAllString(line, g.as)
	}
	if strings.HasPrefix(line, `{"schema":`) {
		line = sortFields(line, 0)
	}
	switch {
	case strings.HasPrefix(id, "file2file"): // the identity of the file, after the offset
		line = regexp.MustCompile(`"position":b64"(\d+);[^"]*"`).ReplaceAllString(line, `"position":b64"$1"`)
	case id == "fmt_debezium_raw": // a JSON number that a double would change keeps its digits
		line = strings.ReplaceAll(line, `{"type":"int64","field":"id"}`, `{"type":"double","field":"id"}`)
	case id == "dlq": // the reason of the refusal, and the form of the payload
		line = regexp.MustCompile(`"conduit.dlq.nack.error":"(?:[^"\\]|\\.)*"`).ReplaceAllString(line,
			`"conduit.dlq.nack.error":"ERROR"`)
		line = strings.ReplaceAll(line, `"after":avro{`, `"after":{`)
	}
	return line
}

// decoded returns the meaning of base64 text: a word, other text, or the values of a record in Avro.
func decoded(t *testing.T, name, text string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case name == "key" && word.Match(b):
		return "WORD"
	case utf8.Valid(b) && !strings.ContainsRune(string(b), 0) && !strings.ContainsRune(string(b), 1):
		return fmt.Sprintf(`b64"%s"`, b)
	}
	codec, err := schema.Parse(`{"type":"record","name":"r","fields":[{"name":"b","type":"boolean"},{"name":"d",
		"type":{"type":"long","logicalType":"time-micros"}},
		{"name":"id","type":"long"},{"name":"name","type":"string"},{"name":"t","type":{"type":"long",
		"logicalType":"timestamp-micros"}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	values, err := codec.Decode(b)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	asJSON, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return "avro" + string(asJSON)
}

// sortFields sorts the fields of all schemas but the outermost.
func sortFields(text string, depth int) string {
	before, rest, found := strings.Cut(text, `"fields":[`)
	if !found {
		return text
	}
	var fields []string
	start, open := 0, 0
	for i, c := range rest {
		switch c {
		case '{', '[':
			open++
		case '}', ']':
			if open--; open < 0 {
				fields = append(fields, sortFields(rest[start:i], depth+1))
				if depth > 0 {
					slices.Sort(fields)
				}
				return before + `"fields":[` + strings.Join(fields, ",") + sortFields(rest[i:], depth)
			}
		case ',':
			if open == 0 {
				fields = append(fields, sortFields(rest[start:i], depth+1))
				start = i + 1
			}
		}
	}
	return text
}
