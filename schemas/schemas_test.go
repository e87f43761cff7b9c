package schemas_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conduit-agent/conduit/schemas"
)

func TestValidate(t *testing.T) {
	const source, sink = `{"id":"s","type":"source","plugin":"p"}`, `{"id":"d","type":"destination","plugin":"p"}`
	tests := []struct {
		name, value string
		want        []schemas.Violation
	}{
		{"empty list", `{"pipelines":[]}`, nil},
		{"complete", `{"version":"2.2","x-any":{"y":1},"pipelines":[{"id":"p","connectors":[` + source + `,` + sink +
			`]}]}`, nil},
		{"settings of any scalar",
			`{"pipelines":[{"id":"p","dead-letter-queue":{"settings":{"a":1,"b":true,"c":null}}}]}`, nil},
		{"processor with its former name", `{"pipelines":[{"id":"p","processors":[{"id":"x","type":"y"}]}]}`, nil},
		{"no pipelines", `{}`, []schemas.Violation{{Keyword: "required", Property: "pipelines"}}},
		{"several missing", `{"pipelines":[{"id":"p","connectors":[{"id":"c"}]}]}`, []schemas.Violation{
			{InstancePointer: "/pipelines/0/connectors/0", Keyword: "required", Property: "plugin"},
			{InstancePointer: "/pipelines/0/connectors/0", Keyword: "required", Property: "type"},
		}},
		{"processor without plugin", `{"pipelines":[{"id":"p","processors":[{"id":"x"}]}]}`, []schemas.Violation{
			{InstancePointer: "/pipelines/0/processors/0", Keyword: "required", Property: "plugin"},
		}},
		{"unknown, escaped", `{"pipelines":[{"id":"p","a/b c%~":1}]}`, []schemas.Violation{{
			InstancePointer: "/pipelines/0/a~1b c%~0", Keyword: "additionalProperties", Property: "a/b c%~",
			Want: []string{"cluster", "connectors", "dead-letter-queue", "description", "id", "instances", "labels",
				"max-silence", "name", "placement", "processors", "routing", "status"},
		}}},
		{"enum", `{"pipelines":[{"id":"p","status":"on"}]}`, []schemas.Violation{
			{InstancePointer: "/pipelines/0/status", Keyword: "enum", Want: []string{"running", "stopped"}},
		}},
		{"type below an escaped key", `{"pipelines":[{"id":"p","dead-letter-queue":{"settings":{"a/b":[]}}}]}`,
			[]schemas.Violation{{
				InstancePointer: "/pipelines/0/dead-letter-queue/settings/a~1b", Keyword: "type",
				Want: []string{"string", "number", "boolean", "null"},
			}}},
		{"bound", `{"pipelines":[{"id":"p","dead-letter-queue":{"window-size":-1}}]}`, []schemas.Violation{
			{InstancePointer: "/pipelines/0/dead-letter-queue/window-size", Keyword: "minimum", Want: []string{"0"}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v any
			if err := json.Unmarshal([]byte(tt.value), &v); err != nil {
				t.Fatal(err)
			}
			got := schemas.PipelineFile.Validate(v)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(schemas.Violation{}, "Message")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Editors show descriptions and complete from examples, so every field needs one.
func TestEveryFieldIsDescribed(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(schemas.PipelineFile.Source(), &root); err != nil {
		t.Fatal(err)
	}
	defs := root["$defs"].(map[string]any)
	checkDescribed(t, "file", root)
	for name, def := range defs {
		checkDescribed(t, name, def.(map[string]any))
	}
}

func checkDescribed(t *testing.T, name string, schema map[string]any) {
	t.Helper()
	if schema["description"] == nil {
		t.Errorf("%s has no description", name)
	}
	fields, _ := schema["properties"].(map[string]any)
	for field, v := range fields {
		f := v.(map[string]any)
		if f["description"] == nil && f["$ref"] == nil {
			t.Errorf("%s.%s has neither description nor $ref", name, field)
		}
	}
}
