package plugins_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]plugins.Name{
		"file":                   {Kind: "any", Name: "file", Version: "latest"},
		"any:file":               {Kind: "any", Name: "file", Version: "latest"},
		"builtin:file":           {Kind: "builtin", Name: "file", Version: "latest"},
		"standalone:file@v1.2.3": {Kind: "standalone", Name: "file", Version: "v1.2.3"},
		"file@latest":            {Kind: "any", Name: "file", Version: "latest"},
		"file@1@2":               {Kind: "any", Name: "file", Version: "1@2"},
		"builtin:a:b":            {Kind: "builtin", Name: "a:b", Version: "latest"},
	} {
		got, err := plugins.ParseName(text)
		if err != nil || got != want {
			t.Errorf("ParseName(%q) = %v, %v, want %v", text, got, err, want)
		}
		again, err := plugins.ParseName(got.String())
		if err != nil || again != got {
			t.Errorf("ParseName(%q) = %v, %v, want %v", got.String(), again, err, got)
		}
	}
}

func TestParseNameErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":            "the name is empty",
		"builtin:":    "the name is empty",
		"@v1":         "the name is empty",
		"file@":       "the version behind '@' is empty",
		"docker:file": `prefix "docker" is none of builtin, standalone, any`,
		":file":       `prefix "" is none of`,
	} {
		if _, err := plugins.ParseName(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseName(%q) gave error %v, want one with %q", text, err, want)
		}
	}
}

func TestNameMatches(t *testing.T) {
	plugin := plugins.Name{Kind: plugins.KindBuiltin, Name: "file", Version: "v1.0.0"}
	for ref, want := range map[string]bool{
		"file":                true,
		"builtin:file@v1.0.0": true,
		"any:file@latest":     true,
		"standalone:file":     false,
		"file@1.0.0":          false,
		"file@v2.0.0":         false,
		"files":               false,
	} {
		name, err := plugins.ParseName(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := name.Matches(plugin); got != want {
			t.Errorf("%s matches %s: %v, want %v", ref, plugin, got, want)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	ascending := []string{"zebra", "apple", "v0.9.0", "1.0.0-rc.1", "v1.0.0", "v1.2.0", "1.10.0"}
	for i, a := range ascending {
		for j, b := range ascending {
			got := plugins.CompareVersions(a, b)
			if (i < j) != (got < 0) || (i == j) != (got == 0) {
				t.Errorf("CompareVersions(%q, %q) = %d", a, b, got)
			}
		}
	}
}
