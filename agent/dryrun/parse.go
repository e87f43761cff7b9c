package dryrun

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// parser reads a file of tests and collects its problems.
type parser struct {
	path     string
	places   map[string]yamldoc.Place
	problems []spec.Problem
}

// Parse reads the test file data. It returns either the file or its problems, by line and column; path names the file
// in them.
func Parse(path string, data []byte) (*File, []spec.Problem) {
	p := &parser{path: path}
	f := p.file(data)
	if len(p.problems) == 0 {
		return f, nil
	}
	slices.SortStableFunc(p.problems, func(a, b spec.Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return nil, p.problems
}

func (p *parser) add(m yamldoc.Mark, code, format string, args ...any) {
	p.problems = append(p.problems, spec.Problem{File: p.path, Line: m.Line, Column: m.Column,
		Severity: spec.SeverityError, Code: code, Message: fmt.Sprintf(format, args...)})
}

// file returns the content of data, which is complete if there are no problems.
func (p *parser) file(data []byte) *File {
	root := p.document(data)
	if root == nil {
		return nil
	}
	p.structure(root, reflect.TypeFor[File](), "the file")
	if len(p.problems) > 0 {
		return nil
	}
	var f File
	if err := root.Decode(&f); err != nil {
		p.add(yamldoc.Mark{Line: 1, Column: 1}, spec.CodeParse, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if len(f.Tests) == 0 {
		p.add(yamldoc.Mark{Line: 1, Column: 1}, spec.CodeRequired, "there are no tests: want a list under tests")
	}
	for i := range f.Tests {
		at := "/tests/" + strconv.Itoa(i)
		f.Tests[i].Line = p.places[at].Value.Line
		p.test(&f.Tests[i], at)
	}
	return &f
}

// document returns the node of the only document of data, or nil if there is a problem.
func (p *parser) document(data []byte) *yaml.Node {
	text := func(string) bool { return false }
	documents, faults := yamldoc.Read(data, yamldoc.Grammar{Typed: text, Text: text})
	for _, d := range documents {
		faults = append(faults, d.Faults...)
	}
	for _, f := range faults {
		if f.Kind != yamldoc.Invalid { // records may have values that pipeline files cannot have
			p.add(f.Mark, spec.CodeParse, "%s", f.Message)
		}
	}
	switch {
	case len(p.problems) > 0:
		return nil
	case len(documents) == 0:
		p.add(yamldoc.Mark{Line: 1, Column: 1}, spec.CodeRequired, "there are no tests: want a list under tests")
		return nil
	case len(documents) > 1:
		p.add(documents[1].Root, spec.CodeInvalid,
			"the file has several documents: write all tests into one list under tests, and remove ---")
		return nil
	}
	p.places = documents[0].Places
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil || len(root.Content) == 0 {
		p.add(yamldoc.Mark{Line: 1, Column: 1}, spec.CodeParse, "cannot read the file: %v", err)
		return nil
	}
	return root.Content[0]
}

// structure reports the fields below n that t does not have, and the values of another type. what describes n.
func (p *parser) structure(n *yaml.Node, t reflect.Type, what string) {
	at := yamldoc.Mark{Line: n.Line, Column: n.Column}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.ShortTag() == "!!null" {
		return
	}
	switch {
	case t == reflect.TypeFor[value]() || t == reflect.TypeFor[time.Time]() && p.decodes(n, t):
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() && n.Kind == yaml.MappingNode:
		p.fields(n, t, what)
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; key.ShortTag() != "!!merge" {
				p.structure(n.Content[i+1], t.Elem(), fmt.Sprintf("%q in %s", key.Value, what))
			}
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			p.structure(item, t.Elem(), fmt.Sprintf("item %d of %s", i+1, what))
		}
	case n.Kind == yaml.ScalarNode && p.decodes(n, t):
	default:
		p.add(at, spec.CodeInvalid, "%s must be %s, not %s", what, wanted(t), given(n))
	}
}

// decodes reports whether the scalar n is a value of the type t.
func (p *parser) decodes(n *yaml.Node, t reflect.Type) bool {
	return n.Decode(reflect.New(t).Interface()) == nil
}

// fields checks the fields of the mapping n, which describes a struct of the type t.
func (p *parser) fields(n *yaml.Node, t reflect.Type, what string) {
	known := map[string]reflect.Type{}
	var names []string
	for field := range t.Fields() {
		if name := field.Tag.Get("yaml"); name != "-" {
			known[name] = field.Type
			names = append(names, name)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			p.merged(item, t, what)
			continue
		}
		inner, ok := known[key.Value]
		if !ok {
			p.add(yamldoc.Mark{Line: key.Line, Column: key.Column}, spec.CodeUnknown, "%s has no field %q%s (fields: %s)",
				nameOf(t), key.Value, texts.Hint(key.Value, names), strings.Join(names, ", "))
			continue
		}
		p.structure(item, inner, key.Value+" of "+nameOf(t))
	}
}

// merged checks the mappings that << adds to a struct of the type t.
func (p *parser) merged(n *yaml.Node, t reflect.Type, what string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		p.structure(n, t, what)
		return
	}
	for _, item := range n.Content {
		p.structure(item, t, what)
	}
}

// nameOf returns what users call a struct of the type t.
func nameOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[File]():
		return "a test file"
	case reflect.TypeFor[Payload]():
		return "the payload of a record"
	case reflect.TypeFor[Test]():
		return "a test"
	case reflect.TypeFor[Input]():
		return "an input"
	case reflect.TypeFor[Expectation]():
		return "an expectation"
	}
	return "a record"
}

// wanted describes the values of the type t.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Time]():
		return "a time such as 2024-01-01T00:00:10Z"
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 10s or 1h30m"
	}
	switch t.Kind() {
	case reflect.Int:
		return "a whole number without quotes"
	case reflect.Bool:
		return "true or false without quotes"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "text"
	}
	return "a map"
}

// given describes the value of n.
func given(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}

// test reports the values of t, which is at the pointer at, that have no meaning.
func (p *parser) test(t *Test, at string) {
	if t.Name == "" {
		p.invalid(at, t, "a test has no name: add a name that says what it checks")
	}
	for i := range t.Input {
		in, at := &t.Input[i], fmt.Sprintf("%s/input/%d", at, i)
		p.record(t, &in.Record, at+"/record")
		if in.After < 0 {
			p.invalid(at+"/wait", t, "wait must not be negative")
		}
	}
	if t.Advance < 0 {
		p.invalid(at+"/advance", t, "advance must not be negative")
	}
	if len(t.Expect) == 0 {
		p.invalid(at, t, "the test expects nothing: want a list under expect")
	}
	for i := range t.Expect {
		p.expectation(t, &t.Expect[i], fmt.Sprintf("%s/expect/%d", at, i))
	}
}

// invalid reports a problem of the test t at the pointer at, or at the nearest value around it.
func (p *parser) invalid(at string, t *Test, format string, args ...any) {
	place, ok := p.places[at]
	for !ok && at != "" {
		at = at[:strings.LastIndexByte(at, '/')]
		place, ok = p.places[at]
	}
	message := fmt.Sprintf(format, args...)
	if t.Name != "" {
		message = fmt.Sprintf("test %q: %s", t.Name, message)
	}
	p.add(place.Value, spec.CodeInvalid, "%s", message)
}

func (p *parser) record(t *Test, r *Record, at string) {
	if _, err := r.record(0); err != nil {
		p.invalid(at, t, "%v", err)
	}
}

func (p *parser) expectation(t *Test, e *Expectation, at string) {
	if e.Equal == nil && len(e.Contains) == 0 && e.Each == "" && e.Count == nil && e.Error == "" {
		p.invalid(at, t, "an expectation says nothing: want equal, contains, each, count or error")
	}
	if e.DeadLetters && e.Destination != "" || e.Error != "" && !e.DeadLetters {
		p.invalid(at, t,
			"an expectation names either a destination, or dead-letters; only dead-letters have an error")
	}
	if _, err := template.ParseCondition(e.Each); err != nil {
		p.invalid(at+"/each", t, "each: %v", err)
	}
	if e.Equal != nil {
		for i := range *e.Equal {
			p.record(t, &(*e.Equal)[i], fmt.Sprintf("%s/equal/%d", at, i))
		}
	}
	for i := range e.Contains {
		p.record(t, &e.Contains[i], fmt.Sprintf("%s/contains/%d", at, i))
	}
}
