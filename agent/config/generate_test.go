package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
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

// The schema has the settings, and the keys of Conduit without effect.
func TestSchemaIsGenerated(t *testing.T) {
	root := object("Settings of the conduit agent. Keys are nested here; dotted keys mean the same.")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://conduit-agent.github.io/schemas/conduit.json"
	root["title"] = "conduit.yaml"
	root["$defs"] = map[string]any{"duration": map[string]any{
		"type":     "string",
		"pattern":  `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`,
		"examples": []any{"500ms", "10s", "1h30m"},
	}}
	for _, g := range config.Groups() {
		add(root, g.Key, object(g.Description))
	}
	for _, s := range config.Settings() {
		add(root, s.Key, property(&s))
	}
	for _, f := range config.ForeignSettings() {
		key := f.Key
		for _, group := range config.ForeignGroups {
			if strings.HasPrefix(key, group+".") {
				key = group
			}
		}
		add(root, key, map[string]any{"description": "Accepted and without effect: " + f.Note + ".",
			"deprecated": true})
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	generated(t, "../../schemas/conduit.json", text.String())
}

func object(description string) map[string]any {
	return map[string]any{"description": description, "type": []any{"object", "null"}, "additionalProperties": false,
		"properties": map[string]any{}}
}

// add adds a schema at a dotted key.
func add(root map[string]any, key string, schema map[string]any) {
	at := root["properties"].(map[string]any)
	parts := strings.Split(key, ".")
	for _, group := range parts[:len(parts)-1] {
		at = at[group].(map[string]any)["properties"].(map[string]any)
	}
	at[parts[len(parts)-1]] = schema
}

// property returns the schema of a setting.
func property(s *config.Setting) map[string]any {
	p := map[string]any{"description": s.Description, "default": s.Default}
	example := any(s.Example)
	switch s.Type() {
	case "bool":
		p["type"] = "boolean"
	case "int":
		p["type"], p["minimum"] = "integer", s.Min
		example, _ = strconv.Atoi(s.Example)
	case "duration":
		p["$ref"], p["default"] = "#/$defs/duration", s.DefaultText()
	default:
		p["type"] = "string"
	}
	switch items := map[string]any{"type": "string"}; {
	case s.List:
		p["type"] = []any{"string", "array"}
		p["items"] = items
		if len(s.Values) > 0 {
			items["enum"] = s.Values
			p["pattern"] = "^[ ,]*((" + strings.Join(s.Values, "|") + ") *(,[ ,]*|$))*$"
		}
	case len(s.Values) > 0:
		p["enum"] = s.Values
	case s.Octal:
		p["type"], p["pattern"] = []any{"string", "integer"}, "^0?[0-7]{3}$"
	}
	if s.Required {
		p["minLength"] = 1
		if s.List {
			p["minItems"] = 1
		}
	}
	if s.Example != "" {
		p["examples"] = []any{example}
	}
	return p
}
