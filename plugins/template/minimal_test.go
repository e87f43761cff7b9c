//go:build minimal

package template_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// TestMinimal checks that the functions of every build behave like those in sprig.
func TestMinimal(t *testing.T) {
	r := &record.Record{Operation: record.OperationCreate, After: record.Structured(map[string]any{"name": "Ada", "empty": ""})}
	for text, want := range map[string]string{
		`{{ toJson .Payload.After }}`:                        `{"empty":"","name":"Ada"}`,
		`{{ .Payload.After.name | upper | quote }}`:          `"ADA"`,
		`{{ lower "ADA" }}{{ trim " x " }}`:                  "adax",
		`{{ .Payload.After.empty | default "none" }}`:        "none",
		`{{ default "none" .Payload.After.name }}`:           "Ada",
		`{{ replace "a" "b" "aa" }}`:                         "bb",
		`{{ trimPrefix "a" "ab" }}{{ trimSuffix "b" "ab" }}`: "ba",
		`{{ contains "d" "Ada" }} {{ hasPrefix "x" "Ada" }}`: "true false",
		`{{ hasSuffix "a" "Ada" }} {{ toString 5 }}`:         "true 5",
	} {
		parsed, err := template.Parse(text, template.Strict)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var limit template.TimeLimit
		limit.Begin(t.Context())
		got, err := parsed.Append(&limit, nil, r)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := template.Parse("{{ sha256sum .Key }}", template.Strict); err == nil || !strings.Contains(err.Error(), "sha256sum") {
		t.Errorf("got %v", err)
	}
}
