package config_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/schemas"
)

var update = flag.Bool("update", false, "write the files that are generated from the declarations")

// generated checks that a file has this content, or writes it.
func generated(t *testing.T, path, content string) {
	t.Helper()
	if *update {
		write(t, path, content)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		t.Errorf("%s does not have what the declarations say: run 'go test ./agent/config -update' (%v)", path, err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// README.md lists the settings below its introduction.
func TestReadmeIsGenerated(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	intro, _, _ := strings.Cut(string(text), "\n## ")
	var b strings.Builder
	b.WriteString(intro)
	last := ""
	for _, s := range config.Settings() {
		if group, _, _ := strings.Cut(s.Key, "."); group != last {
			last = group
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", group, describe(group))
			b.WriteString("| key | variable | type | default | meaning |\n|---|---|---|---|---|\n")
		}
		byDefault := ""
		if s.DefaultText() != "" {
			byDefault = "`" + s.DefaultText() + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", s.Key, s.Env(), s.Type(), byDefault, s.Meaning())
	}
	generated(t, "README.md", b.String())
}

func describe(group string) string {
	for _, g := range config.Groups() {
		if g.Key == group {
			return g.Description
		}
	}
	return ""
}

// schema is the schema of conduit.yaml.
var schema = schemas.New("conduit.json", config.Schema())

// Editors that do not run conduit get the schema from the repository.
func TestSchemaIsGenerated(t *testing.T) {
	generated(t, "../../schemas/conduit.json", string(config.Schema()))
}
