package spec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document reads one document of a pipeline file.
type document struct {
	values
	minor    int  // the file format is 2.minor
	broken   bool // pipelines may be declared whose id is not in declared
	declared []declared
}

// declared is a pipeline whose id could be read.
type declared struct {
	parsed Parsed
	path   string // JSON pointer in the document
	id     Mark   // where the id stands
	valid  bool
}

// latest is the newest minor version of the file format.
const latest = 2

// readDocument reads the document below root. nodes counts over all documents.
func readDocument(root *yaml.Node, nodes *int) *document {
	d := &document{values: values{report{places: map[string]place{"": {mark(root), mark(root)}}}}}
	if problem := checkBounds(root, nodes); problem != nil {
		d.problems, d.broken = []Problem{*problem}, true
		return d
	}
	value, _ := d.value(root, "")
	fields, ok := value.(map[string]any)
	if !ok {
		d.add("", SeverityError, CodeParse, "a pipeline file starts with \"version: 2.2\" and \"pipelines:\", this document is %s", kind(value))
		d.broken = true
		return d
	}
	if d.readVersion(fields) {
		d.readPipelines(fields)
	}
	d.broken = d.broken || d.failedOutside("/pipelines/")
	return d
}

var versionText = regexp.MustCompile(`^2\.(\d{1,6})$`)

// readVersion takes version out of fields. It returns false if it is not 2.x.
func (d *document) readVersion(fields map[string]any) bool {
	d.minor = latest
	version, ok := fields["version"]
	delete(fields, "version")
	if !ok {
		d.add("/version", SeverityWarning, CodeVersion, "the file has no version, so it is read as 2.2: add version: \"2.2\"")
		return true
	}
	text, _ := version.(string)
	switch m := versionText.FindStringSubmatch(text); {
	case m != nil && len(m[1]) == 1 && m[1][0] <= '0'+latest:
		d.minor = int(m[1][0] - '0')
	case m != nil:
		d.add("/version", SeverityWarning, CodeVersion, "version %s is newer than this agent knows, so the file is read as 2.2", text)
	case strings.HasPrefix(text, "1."):
		d.add("/version", SeverityError, CodeVersion, "version %s is not supported: convert the file to 2.2, where pipelines, connectors and processors are lists whose items have an id", text)
		return false
	default:
		d.add("/version", SeverityError, CodeVersion, "version %q is not known: write version: \"2.2\"", text)
		return false
	}
	return true
}

// readPipelines checks fields against the schema and reads each pipeline of it.
func (d *document) readPipelines(fields map[string]any) {
	list, _ := fields["pipelines"].([]any)
	for i, item := range list {
		if pipeline, ok := item.(map[string]any); ok {
			d.prepare(pipeline, fmt.Sprintf("/pipelines/%d", i))
		}
	}
	checkSchema(&d.report, fields)
	for i, item := range list {
		d.readPipeline(item, fmt.Sprintf("/pipelines/%d", i))
	}
}

// prepare brings a pipeline of any 2.x version into the form of the latest, and fills
// in defaults that depend on a field being absent.
func (d *document) prepare(pipeline map[string]any, at string) {
	if pipeline["status"] == "" {
		delete(pipeline, "status")
	}
	if queue, ok := pipeline["dead-letter-queue"].(map[string]any); ok {
		completeDLQ(queue)
	}
	d.prepareProcessors(pipeline, at)
	connectors, _ := pipeline["connectors"].([]any)
	for i, item := range connectors {
		if connector, ok := item.(map[string]any); ok {
			d.prepareProcessors(connector, fmt.Sprintf("%s/connectors/%d", at, i))
		}
	}
}

func (d *document) prepareProcessors(of map[string]any, at string) {
	processors, _ := of["processors"].([]any)
	for i, item := range processors {
		if processor, ok := item.(map[string]any); ok {
			d.prepareProcessor(processor, fmt.Sprintf("%s/processors/%d", at, i))
		}
	}
}

func (d *document) prepareProcessor(processor map[string]any, at string) {
	if _, ok := processor["condition"]; ok && d.minor < 1 {
		d.addName(at+"/condition", SeverityWarning, CodeTooNew, "condition exists since version 2.1: write version: \"2.2\"")
	}
	_, hasPlugin := processor["plugin"]
	former, hasType := processor["type"]
	switch {
	case hasPlugin && hasType:
		d.addName(at+"/type", SeverityError, CodeRenamed, "type is the former name of plugin and both are given: remove type")
	case hasType:
		d.addName(at+"/type", SeverityWarning, CodeRenamed, "type is now called plugin: rename it and write version: \"2.2\"")
		processor["plugin"] = former
		d.places[at+"/plugin"] = d.places[at+"/type"]
	case hasPlugin && d.minor < 2:
		d.addName(at+"/plugin", SeverityWarning, CodeTooNew, "plugin was called type before version 2.2: write version: \"2.2\"")
	}
	delete(processor, "type")
}

// readPipeline checks and keeps the pipeline at the pointer at, if its id is readable.
func (d *document) readPipeline(item any, at string) {
	fields, _ := item.(map[string]any)
	p := decode(fields)
	start := d.find(at).value
	if fields != nil {
		check(&d.report, at, &p)
	}
	for i := range d.problems {
		if within(d.problems[i].Path, at) {
			d.problems[i].Pipeline = p.ID
		}
	}
	if p.ID == "" || d.failed(at+"/id") {
		d.broken = true
		return
	}
	d.declared = append(d.declared, declared{
		parsed: Parsed{Pipeline: p, Line: start.Line, Marks: d.marks(at)},
		path:   at, id: d.find(at + "/id").value,
		valid: !d.failed(at) && !d.failedOutside("/pipelines/"),
	})
}

// decode makes a pipeline of fields. What has the wrong type is left out; the schema
// has reported it.
func decode(fields map[string]any) Pipeline {
	var p Pipeline
	if text, err := json.Marshal(fields); err == nil {
		_ = json.Unmarshal(text, &p) // fields of the wrong type are reported by the schema
	}
	Normalize(&p)
	return p
}

// marks returns the places within the pipeline at the pointer at.
func (d *document) marks(at string) map[string]Mark {
	marks := map[string]Mark{}
	for pointer, p := range d.places {
		if rest, ok := strings.CutPrefix(pointer, at+"/"); ok {
			marks["/"+rest] = p.value
		}
	}
	return marks
}

// failedOutside reports whether there is an error whose path does not begin with prefix.
func (d *document) failedOutside(prefix string) bool {
	return slices.ContainsFunc(d.problems, func(p Problem) bool {
		return p.Severity == SeverityError && !strings.HasPrefix(p.Path, prefix)
	})
}
