package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/spec"
)

const former = `version: 1.1
pipelines:
  # orders of the shop
  orders:
    status: running
    connectors:
      in: # the shop
        type: source
        plugin: builtin:generator
        settings: {rate: "1"}
        processors:
          first: {type: js, settings: {script: x}}
      out:
        type: destination
        plugin: builtin:log
    processors:
      b:
        type: field.set
        workers: 2
      a:
        type: filter
    dead-letter-queue:
      plugin: builtin:log
      window-size: 5
  idle:
    status: stopped
`

const latest = `version: "2.2"
pipelines:
  # orders of the shop
  - id: orders
    status: running
    connectors:
      - id: in # the shop
        type: source
        plugin: builtin:generator
        settings: {rate: "1"}
        processors:
          - id: first
            plugin: js
            settings: {script: x}
      - id: out
        type: destination
        plugin: builtin:log
    processors:
      - id: b
        plugin: field.set
        workers: 2
      - id: a
        plugin: filter
    dead-letter-queue:
      plugin: builtin:log
      window-size: 5
  - id: idle
    status: stopped
`

func TestUpgrade(t *testing.T) {
	got, err := spec.Upgrade([]byte(former))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(latest, string(got)); diff != "" {
		t.Error(diff)
	}
	again, err := spec.Upgrade(got)
	if err != nil || string(again) != string(got) {
		t.Errorf("a file of the latest version changes: %v %s", err, cmp.Diff(string(got), string(again)))
	}
	if f := spec.ParseFile("f.yaml", got); len(f.Pipelines) != 2 || len(f.Invalid) > 0 || f.Broken {
		t.Errorf("it is not read: %v", f.Problems)
	}
}

func TestFilesThatCannotBeUpgraded(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                                 "cannot read the file",
		"- x":                                  "line 1: a pipeline file starts with",
		"version: 1.0\npipelines: {a: 5}":      "line 2: a is not a map",
		"x: &x {a: {}}\npipelines: *x":         "line 2: pipelines is an alias",
		"x: &x {}\npipelines: {a: *x}":         "line 2: a is an alias",
		"pipelines: [5]":                       "line 1: an item of pipelines is not a map",
		"pipelines: {a: {connectors: {b: 5}}}": "b is not a map",
	} {
		if _, err := spec.Upgrade([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
