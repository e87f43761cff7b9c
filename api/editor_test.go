package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

var plugins = []api.PluginSettings{
	{Name: "generator", Summary: "makes records", Source: map[string]rest.Parameter{
		"rate": {Type: "TYPE_FLOAT", Default: "0"},
		"format.type": {Type: "TYPE_STRING",
			Validations: []rest.ParameterRule{{Type: "TYPE_INCLUSION", Value: "raw,structured"},
				{Type: "TYPE_REQUIRED"}}},
		"burst": {Type: "TYPE_BOOL"},
	}},
	{Name: "log", Destination: map[string]rest.Parameter{"level": {Type: "TYPE_STRING", Default: "info"}}},
	{Name: "field.set", Processor: map[string]rest.Parameter{"field": {}, "value": {}}},
}

// complete completes text at the mark ‸.
func complete(t *testing.T, text string) []string {
	t.Helper()
	before, after, found := strings.Cut(text, "‸")
	if !found {
		t.Fatal("no mark")
	}
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	var labels []string
	for _, c := range api.Complete(before+after, line, column, plugins,
		spec.ReferenceKinds{{Name: "env", Syntax: "${VAR}, ${VAR:-default}"}, {Name: "file", Syntax: "${file:/path}"}}) {
		labels = append(labels, c.Label)
	}
	return labels
}

const head = "version: \"2.2\"\npipelines:\n  - id: p\n"

func TestWhatMayStandHere(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string // in this order, at the beginning
		not  []string
	}{
		"top":            {"‸", []string{"version", "pipelines"}, nil},
		"top, begun":     {"pip‸", []string{"pipelines"}, []string{"version"}},
		"top, after one": {"version: \"2.2\"\n‸", []string{"pipelines"}, []string{"version"}},
		"version":        {"version: ‸", []string{`"2.2"`, `"2.1"`, `"2.0"`}, nil},
		"pipeline":       {head + "    ‸", []string{"status", "name"}, []string{"id", "plugin"}},
		"status":         {head + "    status: ‸", []string{"running", "stopped"}, nil},
		"status, begun":  {head + "    status: st‸", []string{"stopped"}, []string{"running"}},
		"new item":       {head + "    connectors:\n      - ‸", []string{"id", "type", "plugin"}, nil},
		"connector": {head + "    connectors:\n      - id: in\n        ‸\n        plugin: log\n",
			[]string{"type"}, []string{"id", "plugin", "status"}},
		"list in line": {"pipelines:\n- id: p\n  connectors:\n  - id: in\n    t‸", []string{"type"},
			[]string{"id"}},
		"type": {head + "    connectors:\n      - id: in\n        type: ‸",
			[]string{"source", "destination"}, nil},
		"source": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: ‸",
			[]string{"generator"}, []string{"log", "field.set"}},
		"destination": {head + "    connectors:\n      - id: a\n        type: source\n      - id: in\n        " +
			"type: destination\n        plugin: ‸", []string{"log"}, []string{"generator", "field.set"}},
		"processor": {head + "    processors:\n      - id: in\n        plugin: ‸", []string{"field.set"},
			[]string{"generator", "log"}},
		"dead letters": {head + "    dead-letter-queue:\n      plugin: ‸", []string{"log"}, []string{"generator"}},
		"settings": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"builtin:generator@v1\n        settings:\n          ‸", []string{"format.type", "burst", "rate"},
			[]string{"level"}},
		"settings there": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"generator\n        settings:\n          rate: \"1\"\n          ‸\n      - id: out\n        type: " +
			"destination\n        plugin: log\n", []string{"format.type", "burst"}, []string{"rate", "level"}},
		"settings before": {head + "    connectors:\n      - settings:\n          ‸\n        id: in\n        type: " +
			"destination\n        plugin: log\n", []string{"level"}, []string{"rate"}},
		"setting, values": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"generator\n        settings:\n          format.type: ‸", []string{"raw", "structured"}, nil},
		"setting, references": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"generator\n        settings:\n          rate: ${‸", []string{"${VAR}", "${VAR:-default}", "${file:/path}"},
			nil},
		"setting, bool": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"generator\n        settings:\n          burst: ‸", []string{"true", "false"}, nil},
		"own processors": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"generator\n        processors:\n          - id: x\n            plugin: field.set\n            " +
			"settings:\n              ‸", []string{"field", "value"}, []string{"rate"}},
		"a comment": {head + "    # ‸", nil, nil},
		"unknown plugin": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: nope\n  " +
			"      settings:\n          ‸", nil, nil},
		"second document": {head + "---\npipelines:\n  - id: q\n    ‸", []string{"status"}, []string{"id"}},
		"over broken lines": {head + "    connectors:\n      - id: in\n        type: source\n        plugin: " +
			"generator\n        !!! what\n        settings:\n          ‸", []string{"format.type"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := complete(t, test.text)
			if len(test.want) == 0 && test.not == nil && len(got) > 0 {
				t.Fatalf("proposed %v, want nothing", got)
			}
			if len(got) < len(test.want) || !slices.Equal(got[:len(test.want)], test.want) {
				t.Errorf("proposed %v, want %v first", got, test.want)
			}
			for _, not := range test.not {
				if slices.Contains(got, not) {
					t.Errorf("proposed %v, which has %s", got, not)
				}
			}
		})
	}
}

func TestCompletionReplacesWhatWasTyped(t *testing.T) {
	all := api.Complete(head+"    sta", 4, 8, plugins, nil)
	if len(all) == 0 || all[0].Insert != "status: " || all[0].Replace != 3 {
		t.Errorf("proposed %+v", all)
	}
	all = api.Complete(head+"    con", 4, 8, plugins, nil)
	if len(all) != 1 || all[0].Insert != "connectors:\n      - " {
		t.Errorf("proposed %+v", all)
	}
}

// A value that a plugin proposes is literal text on one line: no reference in it is resolved.
func TestProposalsOfPluginsAreText(t *testing.T) {
	text := head + "    connectors:\n      - id: in\n        type: source\n        plugin: evil\n        settings:\n " +
		"         "
	for proposed, want := range map[string]string{
		"${file:/x}": `"$${file:/x}"`, "$HOME": "$$HOME", "a\nevil: x": `"a\nevil: x"`,
		"\u2028evil: x": `"\u2028evil: x"`, "\x1b[2J": `"\x1b[2J"`, "plain": "plain", "$5": "$5",
	} {
		evil := []api.PluginSettings{{Name: "evil", Source: map[string]rest.Parameter{
			"region": {Type: "TYPE_STRING", Default: proposed},
			"zone":   {Validations: []rest.ParameterRule{{Type: "TYPE_INCLUSION", Value: proposed}}},
		}}}
		for _, name := range []string{"region", "zone"} {
			all := api.Complete(text+name+": ", 9, 11+len(name)+2, evil, nil)
			if len(all) != 1 || all[0].Insert != want {
				t.Errorf("%s proposes %+v for %q, want %s", name, all, proposed, want)
			}
		}
	}
	evil := []api.PluginSettings{{Name: "evil", Source: map[string]rest.Parameter{"a\nb": {}}}}
	if all := api.Complete(text, 9, 11, evil, nil); len(all) != 1 || all[0].Insert != `"a\nb": ` {
		t.Errorf("the name of a setting is proposed as %+v", all)
	}
}

// For any text and place, completion ends and does not panic.
func FuzzComplete(f *testing.F) {
	f.Add(head+"    connectors:\n      - id: in\n        settings:\n          x", 6, 12)
	f.Add("- - a: b\n -\n: :\n", 2, 2)
	f.Fuzz(func(t *testing.T, text string, line, column int) {
		api.Complete(text, line, column, plugins, nil)
	})
}
