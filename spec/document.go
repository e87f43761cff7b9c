package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec/texts"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// document reads a document of a pipeline file.
type document struct {
	report
	export   bool // settings may be Redacted
	minor    int  // the file format is 2.minor
	broken   bool // the document may declare pipelines whose id is not in declared
	declared []declared
}

// declared is a pipeline with a readable id.
type declared struct {
	parsed Parsed
	path   string       // JSON pointer in the document
	id     yamldoc.Mark // place of the id
	valid  bool
}

// latest is the newest minor version of the file format.
const latest = 2

func readDocument(from *yamldoc.Document, export bool, lookup Lookup) *document {
	d := &document{export: export,
		report: report{kinds: lookup.Kinds, places: from.Places, problems: problemsOf(from.Faults)}}
	if from.TooLarge {
		d.broken = true
		return d
	}
	fields, ok := from.Value.(map[string]any)
	if !ok {
		d.add("", SeverityError, CodeParse,
			"a pipeline file starts with \"version: 2.2\" and \"pipelines:\", this document is %s", kind(from.Value))
		d.broken = true
		return d
	}
	for _, at := range from.Nulls {
		d.add(at, SeverityWarning, CodeInvalid, "setting %q of %s is null, which leaves it out, as if it were not "+
			"written: remove it, or write \"null\" in quotes for this word",
			schemas.UnescapePointer(lastToken(at)), subject(fields, at))
	}
	d.expand(fields, "", lookup)
	if d.readVersion(fields) {
		d.readPipelines(fields)
	}
	d.broken = d.broken || slices.ContainsFunc(d.problems, func(p Problem) bool {
		at, _ := pipelineOf(p.Path)
		return at == "" && p.Severity == SeverityError
	})
	return d
}

// expand replaces the references in the texts of fields, which are at the pointer at. References in settings and plugin
// names stay: they are resolved when the pipeline starts.
func (d *document) expand(fields map[string]any, at string, lookup Lookup) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "settings" || name == "plugin" || name == "condition" {
			continue
		}
		to := at + "/" + schemas.EscapePointer(name)
		switch v := fields[name].(type) {
		case string:
			d.expandText(fields, name, v, to, lookup)
		case map[string]any:
			d.expand(v, to, lookup)
		case []any:
			for i, item := range v {
				if inner, ok := item.(map[string]any); ok {
					d.expand(inner, to+"/"+strconv.Itoa(i), lookup)
				}
			}
		}
	}
}

func (d *document) expandText(fields map[string]any, name, text, at string, lookup Lookup) {
	if !strings.Contains(text, "$") {
		return
	}
	value, err := lookup.Expand(text)
	if err != nil {
		d.add(at, SeverityError, CodeReferenceLost, "%s: %v", name, err)
		return
	}
	fields[name] = value
}

var versionText = texts.Regexp(`^2\.(\d{1,6})$`)

// readVersion removes version from fields. It returns false if the version is not 2.x.
func (d *document) readVersion(fields map[string]any) bool {
	d.minor = latest
	version, ok := fields["version"]
	delete(fields, "version")
	if !ok {
		d.add("/version", SeverityWarning, CodeVersion,
			"the file has no version, so it is read as 2.2: add version: \"2.2\"")
		return true
	}
	text, _ := version.(string)
	switch m := versionText().FindStringSubmatch(text); {
	case m != nil && len(m[1]) == 1 && m[1][0] <= '0'+latest:
		d.minor = int(m[1][0] - '0')
	case m != nil:
		d.add("/version", SeverityWarning, CodeVersion,
			"version %s is newer than this agent knows, so the file is read as 2.2", text)
	case strings.HasPrefix(text, "1."):
		d.add("/version", SeverityError, CodeVersion,
			"version %s is not supported: conduit pipelines migrate writes the file as 2.2, where pipelines, "+
				"connectors and processors are lists whose items have an id", text)
		return false
	default:
		d.add("/version", SeverityError, CodeVersion, "version %q is not known: write version: \"2.2\"", text)
		return false
	}
	return true
}

// readPipelines checks fields against the schema and reads their pipelines.
func (d *document) readPipelines(fields map[string]any) {
	list, _ := fields["pipelines"].([]any)
	for i, item := range list {
		if pipeline, ok := item.(map[string]any); ok {
			d.prepare(pipeline, fmt.Sprintf("/pipelines/%d", i))
		}
	}
	checkSchema(&d.report, fields)
	problems, marks := d.partition()
	d.problems = problems[""]
	outside := hasError(d.problems)
	for i, item := range list {
		at := fmt.Sprintf("/pipelines/%d", i)
		own := &report{kinds: d.kinds, places: d.places, problems: problems[at]}
		d.readPipeline(own, item, at, marks[at], outside)
		d.problems = append(d.problems, own.problems...)
	}
}

// partition groups problems and places by the pointer of their pipeline; problems outside of pipelines are under "".
func (d *document) partition() (map[string][]Problem, map[string]map[string]yamldoc.Mark) {
	problems := map[string][]Problem{}
	for _, p := range d.problems {
		at, _ := pipelineOf(p.Path)
		problems[at] = append(problems[at], p)
	}
	marks := map[string]map[string]yamldoc.Mark{}
	for pointer, p := range d.places {
		at, rest := pipelineOf(pointer)
		if marks[at] == nil {
			marks[at] = map[string]yamldoc.Mark{}
		}
		marks[at][rest] = p.Value
	}
	return problems, marks
}

// pipelineOf splits pointer into the pointer of the pipeline that it leads into and the rest.
func pipelineOf(pointer string) (at, rest string) {
	const list = "/pipelines/"
	inside, ok := strings.CutPrefix(pointer, list)
	if !ok {
		return "", pointer
	}
	end := strings.IndexByte(inside, '/')
	if end < 0 {
		return pointer, ""
	}
	return pointer[:len(list)+end], inside[end:]
}

// prepare converts a pipeline of any 2.x version to the form of the latest version, and sets defaults that depend on
// the absence of a field.
func (d *document) prepare(pipeline map[string]any, at string) {
	if pipeline["status"] == "" {
		delete(pipeline, "status")
	}
	if queue, ok := pipeline["dead-letter-queue"].(map[string]any); ok {
		completeDeadLetterQueue(queue)
	}
	d.prepareProcessors(pipeline, at)
	connectors, _ := pipeline["connectors"].([]any)
	for i, item := range connectors {
		if connector, ok := item.(map[string]any); ok {
			d.prepareProcessors(connector, fmt.Sprintf("%s/connectors/%d", at, i))
		}
	}
}

func (d *document) prepareProcessors(owner map[string]any, at string) {
	processors, _ := owner["processors"].([]any)
	for i, item := range processors {
		if processor, ok := item.(map[string]any); ok {
			d.prepareProcessor(processor, fmt.Sprintf("%s/processors/%d", at, i))
		}
	}
}

func (d *document) prepareProcessor(processor map[string]any, at string) {
	if _, ok := processor["condition"]; ok && d.minor < 1 {
		d.addName(at+"/condition", SeverityWarning, CodeTooNew,
			"condition exists since version 2.1: write version: \"2.2\"")
	}
	_, hasPlugin := processor["plugin"]
	former, hasType := processor["type"]
	switch {
	case hasPlugin && hasType:
		d.addName(at+"/type", SeverityError, CodeRenamed,
			"type is the former name of plugin and both are given: remove type")
	case hasType:
		d.addName(at+"/type", SeverityWarning, CodeRenamed,
			"type is now called plugin: rename it and write version: \"2.2\"")
		processor["plugin"] = former
		d.places[at+"/plugin"] = d.places[at+"/type"]
	case hasPlugin && d.minor < 2:
		d.addName(at+"/plugin", SeverityWarning, CodeTooNew,
			"plugin was called type before version 2.2: write version: \"2.2\"")
	}
	delete(processor, "type")
}

// readPipeline checks the pipeline at the pointer at, with its problems in r, and keeps it if its id is readable.
// outside says that the document around it has an error.
func (d *document) readPipeline(r *report, item any, at string, marks map[string]yamldoc.Mark, outside bool) {
	fields, _ := item.(map[string]any)
	p := decode(fields)
	if fields != nil {
		check(r, at, &p)
	}
	if !d.export {
		checkSecrets(r, at, &p)
	}
	for i := range r.problems {
		r.problems[i].Pipeline = p.ID
	}
	if p.ID == "" || r.failed(at+"/id") {
		d.broken = true
		return
	}
	d.declared = append(d.declared, declared{
		parsed: Parsed{Pipeline: p, Line: r.find(at).Value.Line, Places: PlacesOf(marks)},
		path:   at, id: r.find(at + "/id").Value,
		valid: !outside && !hasError(r.problems),
	})
}

// decode converts fields to a pipeline. It leaves out fields of the wrong type, which the schema has reported.
func decode(fields map[string]any) Pipeline {
	var p Pipeline
	if text, err := json.Marshal(fields); err == nil {
		_ = json.Unmarshal(text, &p) // the schema reports fields of the wrong type
	}
	Normalize(&p)
	return p
}

func hasError(all []Problem) bool {
	return slices.ContainsFunc(all, func(p Problem) bool { return p.Severity == SeverityError })
}
