package plugins_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/pluginname"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]pluginname.Name{
		"file":                   {Kind: "any", Name: "file", Version: "latest"},
		"any:file":               {Kind: "any", Name: "file", Version: "latest"},
		"builtin:file":           {Kind: "builtin", Name: "file", Version: "latest"},
		"standalone:file@v1.2.3": {Kind: "standalone", Name: "file", Version: "v1.2.3"},
		"file@latest":            {Kind: "any", Name: "file", Version: "latest"},
		"file@1@2":               {Kind: "any", Name: "file", Version: "1@2"},
		"builtin:a:b":            {Kind: "builtin", Name: "a:b", Version: "latest"},
	} {
		got, err := pluginname.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
		again, err := pluginname.Parse(got.String())
		if err != nil || again != got {
			t.Errorf("Parse(%q) = %v, %v, want %v", got.String(), again, err, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":            "the name is empty",
		"builtin:":    "the name is empty",
		"@v1":         "the name is empty",
		"file@":       "the version behind '@' is empty",
		"docker:file": `prefix "docker" is none of builtin, standalone, any`,
		":file":       `prefix "" is none of`,
	} {
		if _, err := pluginname.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) gave error %v, want one with %q", text, err, want)
		}
	}
}

func TestNameMatches(t *testing.T) {
	plugin := pluginname.Name{Kind: pluginname.Builtin, Name: "file", Version: "v1.0.0"}
	for ref, want := range map[string]bool{
		"file":                true,
		"builtin:file@v1.0.0": true,
		"any:file@latest":     true,
		"standalone:file":     false,
		"file@1.0.0":          false,
		"file@v2.0.0":         false,
		"files":               false,
	} {
		name, err := pluginname.Parse(ref)
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
			got := pluginname.CompareVersions(a, b)
			if (i < j) != (got < 0) || (i == j) != (got == 0) {
				t.Errorf("CompareVersions(%q, %q) = %d", a, b, got)
			}
		}
	}
}

func TestMajor(t *testing.T) {
	for version, want := range map[string]string{"v0.13.1": "v0", "1.2.3": "v1", "latest": "", "apple": ""} {
		if got := (pluginname.Name{Version: version}).Major(); got != want {
			t.Errorf("major version of %q is %q, want %q", version, got, want)
		}
	}
}

func TestIsPath(t *testing.T) {
	for ref, want := range map[string]bool{"./xgenerator": true, "standalone:./x@y": true, "xgenerator@v1.0.0": false} {
		name, err := pluginname.Parse(ref)
		if err != nil || name.IsPath() != want || want && name.Version != pluginname.Latest {
			t.Errorf("%s is %+v, error %v", ref, name, err)
		}
	}
}

// Names are sorted by kind, name and version, older versions first.
func TestCompare(t *testing.T) {
	ascending := []pluginname.Name{
		{Kind: "builtin", Name: "b", Version: "v1.0.0"},
		{Kind: "standalone", Name: "a", Version: "v0.9.0"},
		{Kind: "standalone", Name: "a", Version: "v0.10.0"},
		{Kind: "standalone", Name: "b", Version: "1.0.0"},
		{Kind: "standalone", Name: "b", Version: "v1.0.0"},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := a.Compare(b); (i < j) != (got < 0) || (i == j) != (got == 0) {
				t.Errorf("%s compared with %s is %d", a, b, got)
			}
		}
	}
}

// All forms of a reference name the same plugin.
func TestBare(t *testing.T) {
	for reference, want := range map[string]string{
		"file": "file", "builtin:file": "file", "any:file@v1.0.0": "file", "file@latest": "file",
		"xgenerator": "xgenerator", "./xgenerator": "xgenerator", "standalone:./xgenerator": "xgenerator",
		"/opt/plugins/x@1": "x@1",
		"":                 "", "builtin:": "",
	} {
		if got := pluginname.Bare(reference); got != want {
			t.Errorf("%q names %q, want %q", reference, got, want)
		}
	}
}
