package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

func TestDemoPipelineEqualsCheckout(t *testing.T) {
	file, err := os.ReadFile("../../../pipelines/demo-pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := DemoDraft("demo-pipeline").Render(); string(got) != string(file) {
		t.Errorf("conduit pipelines init writes\n%s", got)
	}
}

func TestScaffoldIsReadBackTheSame(t *testing.T) {
	for _, s := range []string{
		"", "word", "a.b-c_1", "1", "1.5", "true", "No", "null", "-", "a b", "a: b", "# a", "it's", `say "x"`,
		`back\slash`, `{{ index .Metadata "opencdc.collection" }}`, "two\nlines", "tab\t", "<&>", "Zürich", "\x1b[2J",
		"*", "~", "\u009b2J", "\u0085x", "a\u2028b", "\u202egnp.exe", "\ufeff", "\x7f", "\U0001F600", "\U000E0041",
	} {
		t.Run(s, func(t *testing.T) {
			var file struct {
				Pipelines []struct{ Description any }
			}
			text := (&Draft{ID: "p", Description: s}).Render()
			if err := yaml.Unmarshal(text, &file); err != nil || len(file.Pipelines) != 1 ||
				file.Pipelines[0].Description != s {
				t.Errorf("%q is read %+v, %v, in\n%s", s, file, err, text)
			}
		})
	}
}

// The description of a plugin is plain text in the file: no reference, no other setting, and no terminal control
// sequence.
func TestPluginsWriteTextOnlyIntoAScaffold(t *testing.T) {
	hostile := []string{"${file:/etc/conduit/secret}", "$HOME", "${X:-y}", "${credential:x}", "$${file:/x}",
		"a\n      evil: x", "\u2028evil: x", "\u2029evil: x", "\u0085evil: x", "\revil: x",
		"\x1b]0;x\a\x1b[2J", "\u009b2J", "\u202e", "\xff\x9b", "'", "\"", "\\", "# x", "*a", "&a", "!!binary x",
		"{a: b}", "- x", "%", "@", "`"}
	for _, text := range hostile {
		f := &Draft{ID: "p", Description: "d"}
		f.Add("evil", spec.TypeSource, sdk.Parameters{
			"needed": {Default: text, Description: text,
				Validations: []sdk.Validation{{Type: sdk.ValidationRequired},
					{Type: sdk.ValidationInclusion, Value: text}, {Type: sdk.ValidationRegex, Value: text}}},
			"off" + text: {Description: text, Default: ""},
			"n" + text:   {Default: text},
		})
		f.Add("log", spec.TypeDestination, nil)
		rendered := f.Render()
		for _, r := range strings.ReplaceAll(string(rendered), "\n", "") {
			if r < ' ' || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0x202e {
				t.Errorf("%q: the file has the character %U", text, r)
			}
		}
		parsed := spec.ParseFile("p.yaml", rendered)
		if len(parsed.Pipelines) != 1 || parsed.Broken {
			t.Errorf("%q: problems %+v in\n%s", text, parsed.Problems, rendered)
			continue
		}
		p := parsed.Pipelines[0].Pipeline
		resolved, problems := spec.Resolve(&p, spec.Lookup{})
		if len(problems) > 0 || len(spec.References(&p)) > 0 {
			t.Errorf("%q: references %v, problems %v", text, spec.References(&p), problems)
			continue
		}
		want := strings.ToValidUTF8(text, "\uFFFD")
		if got := resolved.Connectors[0].Settings; got["needed"] != want || !strings.Contains(text, "*") &&
			(len(got) != 2 || got["n"+want] != want) {
			t.Errorf("%q: settings are %q", text, got)
		}
	}
	if again := (&Draft{ID: "${file:/x}", Description: "$HOME"}).Render(); !bytes.Contains(again,
		[]byte("$${file:/x}")) || !bytes.Contains(again, []byte("$$HOME")) {
		t.Errorf("id and description are references in\n%s", again)
	}
}
