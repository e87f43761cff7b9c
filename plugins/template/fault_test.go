package template_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// Errors that do not depend on the record are found before there is one, also in branches that no record takes.
func TestTemplatesThatAlwaysFail(t *testing.T) {
	const never = `{{ if false }}`
	for text, want := range map[string]string{
		`{{ toJSON .Key }}`: `at line 1, column 4 of the template (toJSON): there is no function "toJSON"; did you ` +
			`mean "toJson"?`,
		"a\n{{ if true }}x{{ strftme }}\n{{ end }}": `at line 2, column 18 of the template (strftme): there is ` +
			`no function "strftme"; did you mean "strftime"?`,
		`{{ bad .Key }}`:     `there is no function "bad"; there are those of text/template and of sprig`,
		`{{ eqq .Key "a" }}`: `did you mean "eq"?`,
		`{{ nott true }}`:    `did you mean "not"?`,
		`{{ .Key | bd }}`:    `there is no function "bd"`,
		`{{ .key }}`: `(.key): a record has no "key": it has .Position, .Operation, .Metadata, .Key, ` +
			`.Payload.Before and .Payload.After; did you mean "Key"?`,
		`{{ toJson .key }}`:                                        `column 11 of the template (.key): a record has no "key"`,
		`{{ .After.id }}`:                                          `did you mean ".Payload.After"?`,
		`{{ .id }}`:                                                `its data are read with .Key.id and .Payload.After.id`,
		`{{ .record }}`:                                            `a record has no "record"`,
		`{{ .Payload.after.id }}`:                                  `has no "after": it has .Before and .After; did you`,
		`{{ .Payload.id }}`:                                        `the fields of the data are read with .Payload.After.id`,
		`{{ $.key }}`:                                              `a record has no "key"`,
		`{{ .Position.x }}`:                                        `raw data has no field "x"`,
		`{{ .Operation.x }}`:                                       `an operation has no field "x"`,
		`{{ .Metadata.opencdc.collection }}`:                       `a text has no field "collection"`,
		`{{ (.Payload).x }}`:                                       `the payload of a record has no "x"`,
		`{{ $x := .Payload }}{{ $x.id }}`:                          `the payload of a record has no "id"`,
		`{{ with .Payload }}{{ .Key }}{{ end }}`:                   `the payload of a record has no "Key"`,
		`{{ with .Payload }}{{ else }}{{ .key }}{{ end }}`:         `a record has no "key"`,
		`{{ range .Payload.After.list }}{{ $.key }}{{ end }}`:      `a record has no "key"`,
		`{{ define "x" }}{{ .key }}{{ end }}{{ template "x" . }}`:  `a record has no "key"`,
		`{{ define "x" }}{{ $.key }}{{ end }}{{ template "x" . }}`: `a record has no "key"`,
		`{{ define "x" }}{{ toJSON . }}{{ end }}`:                  `there is no function "toJSON"`,
		`{{ block "x" . }}{{ .key }}{{ end }}`:                     `a record has no "key"`,
		`{{ template "row" . }}`:                                   `there is no template "row"`,
		`{{ define "row" }}{{ end }}{{ template "rom" . }}`:        `there is no template "rom"; did you mean "row"?`,
		`{{ and false (.Foo) }}`:                                   `a record has no "Foo"`,
		`{{ eq (toString .Key).x 1 }}`:                             `a text has no field "x"`,
		`{{ toJson }}`:                                             `toJson has 0 arguments, but takes 1`,
		`{{ .Key | toJson 1 }}`:                                    `toJson has 2 arguments, but takes 1`,
		`{{ not }}`:                                                `not has 0 arguments, but takes 1`,
		`{{ index }}`:                                              `index has 0 arguments, but takes at least 1`,
		`{{ .Metadata "a" }}`:                                      `a value takes no arguments: write the name of`,
		`{{ .Key }`:                                                `at line 1 of the template: unexpected "}" in operand`,
		"\n{{ .Key":                                                `line 2 of the template: unclosed action: end it with }}`,
		`{{ .Metadata["a.b"] }}`:                                   `read a key that is no plain word with index`,
		`{{ if true }}`:                                            `end each if, with, range and define with {{ end }}`,
		`{{ nil }}`:                                                `(nil): nil is no value to print: remove it`,
		`{{ nil | default "x" }}`:                                  `nil is no value to print`,
		`{{ upper 3 }}`: `(upper 3): argument 1 of upper must be text in ` +
			`quotes, not 3`,
		`{{ .Key | trunc "a" }}`:   `argument 1 of trunc must be a whole number, not "a"`,
		`{{ ternary 1 2 "true" }}`: `argument 3 of ternary must be true or false, not "true"`,
		`{{ if hasPrefix "a" true }}{{ end }}`: `argument 2 of hasPrefix must be text in quotes, ` +
			`not true`,
		`{{ $x }}`:                             `undefined variable "$x": declare it before`,
		never + `{{ strftime "%Q" }}{{ end }}`: `(strftime "%Q"): strftime: %Q is no`,
	} {
		if _, err := template.ParsePath(text, "", time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if strings.Contains(text, "define") || strings.Contains(text, "block") { // only outside of branches
			continue
		}
		if _, err := template.ParsePath(never+text+"{{ end }}", "", time.UTC); err == nil {
			t.Errorf("%s: no error in a branch that is not taken", text)
		}
	}
	if _, err := template.Parse(`{{ strftime "%F" }}`, template.Strict); err == nil ||
		!strings.Contains(err.Error(), "only templates of paths and keys have strftime") {
		t.Errorf("strftime outside of a path: %v", err)
	}
}

// What depends on the record is no error before there is one.
func TestTemplatesThatMayFail(t *testing.T) {
	for _, text := range []string{
		`{{ .Key.id }}{{ .Payload.After.a.b }}{{ .Payload.Before }}{{ .Metadata.x }}{{ .Operation.String }}`,
		`{{ with .Key }}{{ .anything }}{{ $.Key }}{{ end }}`,
		`{{ range .Payload.After.list }}{{ .x }}{{ break }}{{ end }}`,
		`{{ range $i, $e := .Payload.After.list }}{{ $e.x }}{{ $i }}{{ else }}{{ .Key }}{{ end }}`,
		`{{ $x := .Payload }}{{ $x = .Key }}{{ $x.id }}`,
		`{{ if $x := .Payload }}{{ $x.After }}{{ end }}{{ with $x := .Key }}{{ $x.a }}{{ .a }}{{ end }}`,
		`{{ $x := .Payload }}{{ with $x := .Key }}{{ $x.id }}{{ end }}{{ $x.After.id }}`,
		`{{ (.Map).operation }}{{ .Map.key }}{{ .Clone.Key }}{{ .Bytes }}{{ .Position.Bytes }}`,
		`{{ .Metadata.GetCreatedAt.Unix }}{{ .Metadata.GetCollection }}{{ (now).Year }}{{ now | date "2006" }}`,
		`{{ define "x" }}{{ .anything }}{{ template "x" .a }}{{ end }}{{ template "x" .Key }}`,
		`{{ (dict "a" 1).a }}{{ (fromJson "{}").b }}{{ (split "," "a,b")._0 }}{{ (list 1 2) | first }}`,
		`{{ (genCAWithKey "x" 1 (genPrivateKey "ecdsa")).Cert }}`,
		`{{ and .Key (or .Payload.After.x (not .Metadata.m)) }}{{ len .Metadata }}{{ slice "abc" 1 }}{{ call .Key.f 1 }}`,
		`{{ printf "%s" .Key }}{{ print }}{{ .Key | default "x" | quote }}{{ "x" | printf "%s-%s" "y" }}`,
		`{{ .Metadata.GetCreatedAt.Format "2006" }}{{ ternary "a" "b" true }}`,
		`{{/* a comment */}}{{ true }}`,
		`{{ define "empty" }}{{ end }}{{ template "empty" }}{{ block "b" .Key }}{{ .x }}{{ end }}`,
		`{{ if .Key }}{{ else if $x := .Payload }}{{ $x.After }}{{ else }}{{ .Key }}{{ end }}`,
		`{{ with .Key }}{{ .x }}{{ else with .Payload }}{{ .After }}{{ else }}{{ .Key }}{{ end }}`,
	} {
		if _, err := template.Parse(text, template.Strict); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := template.Parse(`{{ .Metadata.opencdc.collection }}`, template.Lenient); err != nil {
		t.Errorf("a field of a key that may be missing: %v", err)
	}
}

// Errors that depend on the record have a place, a cause and a remedy.
func TestErrorsOfExecutions(t *testing.T) {
	for text, want := range map[string]string{
		"\n {{ .Key.id }}": `at line 2, column 9 of the template (.Key.id): "id" cannot be read of raw data: make ` +
			`fields of it before, such as with the processor json.decode`,
		`{{ .Payload.Before.x }}`: `no .Payload.Before: where it may be missing, write {{ with ` +
			`.Payload.Be`,
		`{{ .Payload.After.non }}`: `there is no field "non"; did you mean "none"?; where it may ` +
			`be missing`,
		`{{ .Payload.After.n.y }}`:    `there is no field "y"; did`,
		`{{ .Payload.After.none.x }}`: `the record has no .Payload.After.none:`,
		`{{ .Payload.After.a.x }}`:    `(.Payload.After.a.x): a number has no field "x"`,
		`{{ .Payload.After.s.x }}`:    `a text has no field "x"`,
		`{{ .Payload.After.l.x }}`:    `"x" cannot be read of a list: read an element with index`,
		`{{ .Metadata.none }}`: `no metadata "none"; a key with a dot is read with {{ index ` +
			`.Metadata "a.b" }}`,
		`{{ $.Payload.After.n.y }}`: `there is no field "y"`,
		`{{ with .Key }}{{ .id }}{{ end }}`: `at line 1, column 19 of the template (.id): "id" cannot be ` +
			`read of raw data`,
		`{{ range .Payload.After.l }}{{ .q }}{{ end }}`: `(.q): the value has no field "q": it is no object`,
		`{{ with .Payload.After }}{{ .non }}{{ end }}`:  `(.non): there is no field "non"; where it may be missing, test it`,
		`{{ (dict "b" 1).c }}`:                          `there is no field "c"; where it may be missing`,
		`{{ hasKey .Metadata "m" }}`:                    `wrong type for value; expected an object; got metadata`,
		`{{ hasKey .Payload.After.l "m" }}`:             `wrong type for value; expected an object; got a list`,
		`{{ fail "no" }}`:                               `at line 1, column 4 of the template (fail "no"): fail: no`,
		`{{ eq .Operation "create" }}`:                  `eq: incompatible types for comparison`,
		`{{ .Payload.After.none }}`: `at line 1, column 4 of the template (.Payload.After.none): it prints a value ` +
			`that is null or missing: write {{ .Payload.After.none | default "…" }}`,
		`{{ range .Payload.After.l }}{{ $.Payload.After.none }}{{ end }}`: `($.Payload.After.none): it prints a value that ` +
			`is null or missing: write {{ $.Payload.After.none | default "…" }}`,
		`{{ define "x" }}{{ . }}{{ end }}{{ template "x" .Payload.After.none }}`: `(.): it prints a value that is null or`,
		`a{{ regexMatch "(" "x" | not | not }}{{ mustRegexMatch "(" "x" }}`:      "mustRegexMatch: error parsing regexp",
		`{{ upper .Payload.After.a }}`: `wrong type for value; expected ` +
			`string; got`,
		`{{ range .Payload.After.s }}{{ end }}`: `range can't iterate over text`,
	} {
		tpl, err := template.Parse(text, template.Exact)
		if err != nil {
			t.Fatal(err)
		}
		r := sample()
		after, _ := r.After.Structured()
		after["none"], after["l"] = nil, []any{1}
		_, err = tpl.Append(new(template.TimeLimit), nil, r)
		switch {
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %s", text, err, want)
		case strings.Contains(err.Error(), "executing") || strings.Contains(err.Error(), "interface {}") ||
			strings.Contains(err.Error(), "conduit_"):
			t.Errorf("%s: the error has names of the implementation: %v", text, err)
		}
	}
}

// The cause of an error of a function is kept.
func TestCauseOfAnError(t *testing.T) {
	tpl, err := template.Parse(`{{ .Metadata.GetCollection }}`, template.Strict)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tpl.Append(new(template.TimeLimit), nil, &record.Record{})
	if err == nil || errors.Unwrap(errors.Unwrap(err)) == nil {
		t.Errorf("no cause: %v", err)
	}
}
