package spec_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// kinds returns those kinds of references whose function is not nil.
func kinds(
	env func(name string) (string, bool), file, credential func(argument string) (string, error),
) (all spec.ReferenceKinds) {
	reads := func(read func(string) (string, error)) func(context.Context, string, spec.ReferenceAccess) (string, error) {
		return func(_ context.Context, argument string, _ spec.ReferenceAccess) (string, error) {
			return read(argument)
		}
	}
	check := func(valid func(argument string) bool) func(string) error {
		return func(argument string) error {
			if !valid(argument) {
				return errors.New("the argument is wrong")
			}
			return nil
		}
	}
	if env != nil {
		all = append(all, spec.ReferenceKind{Name: "env", Syntax: "${VAR}, ${VAR:-default}, ${VAR:?message}",
			Read: reads(func(name string) (string, error) {
				if value, ok := env(name); ok {
					return value, nil
				}
				return "", spec.ErrUnset
			})})
	}
	if file != nil {
		all = append(all, spec.ReferenceKind{Name: "file", Syntax: "${file:/path}", Read: reads(file),
			Check: check(func(path string) bool { return strings.HasPrefix(path, "/") })})
	}
	if credential != nil {
		all = append(all, spec.ReferenceKind{Name: "credential", Syntax: "${credential:name}", Read: reads(credential),
			Check: check(func(name string) bool { return !strings.Contains(name, "/") })})
	}
	return all
}

// unread are all kinds, for tests that read no value.
func unread() spec.ReferenceKinds {
	none := func(string) (string, error) { return "", errors.New("not read") }
	return kinds(func(string) (string, bool) { return "", false }, none, none)
}

// A reference of a kind that the binary does not have, or with an argument that its kind refuses, is a problem at its
// place, with the references that the binary has.
func TestReferencesOfOtherKinds(t *testing.T) {
	const file = "version: \"2.2\"\npipelines:\n  - id: p\n    connectors:\n      - {id: s, type: source, plugin: g, " +
		"settings: {a: \"REFERENCE\"}}\n      - {id: d, type: destination, plugin: l}\n"
	both := unread()[:2]
	for reference, want := range map[string]string{
		"${credential:pw}":  "${credential:pw} is a reference of the unknown kind \"credential\"",
		"x ${vault:db#pw}":  "${vault:db#pw} is a reference of the unknown kind \"vault\"",
		"${file:relative}":  "${file:relative} is not a reference: the argument is wrong",
		"${VAR:default}":    "${VAR:default} is not a reference",
		"${file:/x}${VAR}x": "",
	} {
		text := strings.Replace(file, "REFERENCE", reference, 1)
		parser := spec.Parser{References: both}
		problems := parser.File("f.yaml", []byte(text)).Problems
		const listed = "write ${VAR}, ${VAR:-default}, ${VAR:?message} or ${file:/path}, or $${ for a literal ${"
		switch {
		case want == "":
			if len(problems) > 0 {
				t.Errorf("%s: %v", reference, problems)
			}
		case len(problems) != 1 || !strings.Contains(problems[0].Message, want) || problems[0].Line != 5 ||
			problems[0].Column < 40 || !strings.Contains(problems[0].Message, listed):
			t.Errorf("%s: %+v, want a problem in line 5 with %q", reference, problems, want)
		}
		p := &spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "s", Type: spec.TypeSource, Plugin: "g",
			Settings: map[string]string{"a": reference}}, {ID: "d", Type: spec.TypeDestination, Plugin: "l"}}}
		if problems := parser.Validate(p); (len(problems) > 0) != (want != "") {
			t.Errorf("%s: as a request: %+v", reference, problems)
		}
		if problems := parser.Export([]byte(text)).Problems; (len(problems) > 0) != (want != "") {
			t.Errorf("%s: as an export: %+v", reference, problems)
		}
	}
	_, problem := (spec.ReferenceKinds{unread()[1]}).Scan("$HOME")
	if !strings.Contains(problem, "unknown kind \"env\"") {
		t.Errorf("without variables: %q", problem)
	}
}
