package template

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/texts"
)

// fault is an error at a place in the text of a template, found before or during an execution.
type fault struct {
	line, column int    // from 1, column in bytes; 0: unknown
	expression   string // at the place; empty: unknown
	err          error  // the cause, and the remedy where there is one
}

// Error returns the place, the expression, the cause and the remedy.
func (f *fault) Error() string {
	var b strings.Builder
	if f.line > 0 {
		fmt.Fprintf(&b, "at line %d", f.line)
		if f.column > 0 {
			fmt.Fprintf(&b, ", column %d", f.column)
		}
		b.WriteString(" of the template")
		if f.expression != "" {
			fmt.Fprintf(&b, " (%s)", shorten(f.expression))
		}
		b.WriteString(": ")
	}
	return b.String() + f.err.Error()
}

// Unwrap returns the cause.
func (f *fault) Unwrap() error { return f.err }

// shorten bounds an expression in an error.
func shorten(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// syntaxFault returns the error of the parser of text/template.
func syntaxFault(err error) error {
	f := &fault{err: err}
	line, message, ok := texts.TemplateSyntax("", err)
	if n, failed := strconv.Atoi(line); ok && failed == nil {
		f.line, f.err = n, errors.New(message)
	}
	return f
}

// faultAt returns the error err of the node n of a template.
func faultAt(tree *parse.Tree, n parse.Node, err error) error {
	location, context := tree.ErrorContext(n)
	f := &fault{expression: context, err: err}
	f.place(location)
	return f
}

// place takes a location of text/template, such as ":1:12", whose columns start at 0.
func (f *fault) place(location string) {
	if _, err := fmt.Sscanf(location, ":%d:%d", &f.line, &f.column); err != nil {
		f.line, f.column = 0, 0
		return
	}
	f.column++
}

// unknownFunction returns the error for a call of a function that does not exist.
func unknownFunction(name string, path bool) error {
	if name == strftimeName {
		return errors.New("only templates of paths and keys have strftime: here, use date, such as " +
			`{{ now | date "2006-01-02" }}`)
	}
	known := slices.AppendSeq(slices.Collect(maps.Keys(allFunctions())), maps.Keys(builtins))
	if path {
		known = append(known, strftimeName)
	}
	slices.Sort(known)
	hint := texts.Hint(name, known)
	if hint == "" {
		hint = "; there are those of text/template and of sprig, such as index, eq, default and toJson"
	}
	return fmt.Errorf("there is no function %q%s", name, hint)
}

// noField returns the error for a field that no value of the type t has.
func noField(t reflect.Type, name string) error {
	switch t {
	case reflect.TypeFor[view]():
		remedy := texts.Hint(name, []string{"Position", "Operation", "Metadata", "Key", "Payload"})
		if within := texts.Closest(name+" ", []string{"Before", "After"}); remedy == "" && within != "" {
			remedy = `; did you mean ".Payload.` + within + `"?`
		}
		if remedy == "" {
			remedy = fmt.Sprintf("; the fields of its data are read with .Key.%s and .Payload.After.%[1]s", name)
		}
		return fmt.Errorf("a record has no %q: it has .Position, .Operation, .Metadata, .Key, .Payload.Before and "+
			".Payload.After%s", name, remedy)
	case reflect.TypeFor[payload]():
		remedy := texts.Hint(name, []string{"Before", "After"})
		if remedy == "" {
			remedy = "; the fields of the data are read with .Payload.After." + name
		}
		return fmt.Errorf("the payload of a record has no %q: it has .Before and .After%s", name, remedy)
	}
	return fmt.Errorf("%s has no field %q", nameOf(t), name)
}

// nameOf returns what users call values of a type.
func nameOf(t reflect.Type) string {
	switch t {
	case nil:
		return "a missing value"
	case reflect.TypeFor[view]():
		return "a record"
	case reflect.TypeFor[payload]():
		return "the payload of a record"
	case reflect.TypeFor[text]():
		return "raw data"
	case reflect.TypeFor[record.Operation]():
		return "an operation"
	case reflect.TypeFor[metadata]():
		return "metadata"
	}
	switch t.Kind() {
	case reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a number"
	}
	return "a value of type " + t.String()
}

// executionFault returns the error err of the template t of text/template for the record v.
func executionFault(t *template.Template, err error, v view) error {
	var failed template.ExecError
	if !errors.As(err, &failed) {
		return err
	}
	rest := strings.TrimPrefix(failed.Error(), "template: ")
	location, rest, _ := strings.Cut(rest, ": executing ")
	_, rest, _ = strings.Cut(rest, " at <")
	context, message, ok := strings.Cut(rest, ">: ")
	if !ok {
		return err
	}
	f := &fault{expression: context}
	f.place(location)
	switch f.err = errors.Unwrap(failed.Unwrap()); {
	case context == stepName: // at no place of the text
		f.line = 0
	case context == textName:
		f.expression = printedAt(t, location)
	}
	switch {
	case errors.Is(f.err, errNil) && f.expression != "":
		f.err = fmt.Errorf("%w: write {{ %s | default \"…\" }}", f.err, f.expression)
	case f.err == nil:
		f.err = errors.New(explained(context, message, v))
	case context != stepName && context != textName:
		f.err = fmt.Errorf("%s: %w", strings.TrimPrefix(before(message, ": "), "error calling "), f.err)
	}
	return f
}

// printedAt returns the expression whose value the action of t at the location prints.
func printedAt(t *template.Template, location string) (expression string) {
	for _, each := range t.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		eachNode(each.Root, func(n parse.Node) {
			a, ok := n.(*parse.ActionNode)
			if !ok {
				return
			}
			if at, _ := each.ErrorContext(a.Pipe.Cmds[0]); at == location {
				expression = strings.TrimSuffix(a.Pipe.String(), " | "+textName)
			}
		})
	}
	return expression
}

func before(s, separator string) string {
	s, _, _ = strings.Cut(s, separator)
	return s
}

// explained returns the cause of the error message of text/template in the expression context, with a remedy.
func explained(context, message string, v view) string {
	var name, unknown string // unknown is the cause if the parent is not found in the record
	if _, after, ok := strings.Cut(message, "can't evaluate field "); ok {
		name = before(after, " in type ")
		unknown = fmt.Sprintf("the value has no field %q: it is no object, but a text, a number or a list", name)
		if strings.HasSuffix(after, " in type template.text") {
			unknown = ofRawData(name)
		}
	} else if _, after, ok := strings.Cut(message, "nil pointer evaluating "); ok {
		name = after[strings.LastIndexByte(after, '.')+1:]
		unknown = fmt.Sprintf("%q cannot be read of a value that is missing: where it may be missing, test it first with "+
			"if or with", name)
	} else if _, after, ok := strings.Cut(message, " no entry for key "); ok {
		name, _ = strconv.Unquote(after)
		unknown = missingField(name, nil)
	} else {
		return strings.NewReplacer("map[string]interface {}", "an object", "[]interface {}", "a list", "interface {}",
			"any value", "template.text", "raw data", "template.structured", "an object", "template.metadata",
			"metadata").Replace(message)
	}
	parent, found := parentOf(context, name, v)
	switch parent := parent.(type) {
	case nil:
		if at, ok := strings.CutSuffix(before(context+" ", " "), "."+name); ok && found {
			return fmt.Sprintf("the record has no %s: where it may be missing, write {{ with %[1]s }}{{ .%s }}{{ end }}",
				at, name)
		}
		return unknown
	case text:
		return ofRawData(name)
	case metadata:
		return fmt.Sprintf("the record has no metadata %q%s; a key with a dot is read with "+
			`{{ index .Metadata "a.b" }}, which prints nothing for a missing key`, name, texts.Hint(name, keys(parent)))
	case structured:
		return missingField(name, keys(parent))
	case map[string]any:
		return missingField(name, keys(parent))
	case []any:
		return fmt.Sprintf("%q cannot be read of a list: read an element with index, such as {{ index .Payload.After.list "+
			"0 }}, or all with range", name)
	default:
		return noField(reflect.TypeOf(parent), name).Error()
	}
}

func ofRawData(name string) string {
	return fmt.Sprintf("%q cannot be read of raw data: make fields of it before, such as with the processor "+
		"json.decode", name)
}

func missingField(name string, known []string) string {
	return fmt.Sprintf("there is no field %q%s; where it may be missing, test it first: {{ if hasKey OBJECT %[1]q }}",
		name, texts.Hint(name, known))
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// parentOf returns the value in which the expression context, if it is the path of a value in the record v, does not
// find name. It returns false for other expressions.
func parentOf(context, name string, v view) (parent any, found bool) {
	names := strings.Split(strings.TrimPrefix(before(context+" ", " "), "$"), ".")
	if len(names) < 3 || names[0] != "" {
		return nil, false
	}
	names = names[1:]
	switch {
	case names[0] == "Key":
		parent, names = v.Key, names[1:]
	case names[0] == "Metadata":
		parent, names = v.Metadata, names[1:]
	case names[0] == "Payload" && len(names) > 2 && names[1] == "Before":
		parent, names = v.Payload.Before, names[2:]
	case names[0] == "Payload" && len(names) > 2 && names[1] == "After":
		parent, names = v.Payload.After, names[2:]
	default:
		return nil, false
	}
	for _, next := range names {
		var inner any
		ok := false
		switch m := parent.(type) {
		case metadata:
			inner, ok = m[next]
		case structured:
			inner, ok = m[next]
		case map[string]any:
			inner, ok = m[next]
		}
		if !ok {
			return parent, next == name
		}
		parent = inner
	}
	return nil, false
}
