package config

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Schema returns the JSON Schema of conduit.yaml: its settings, and the keys of Conduit without effect.
func Schema() []byte {
	root := object("Settings of the conduit agent. Keys are nested here; dotted keys mean the same.")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://conduit-agent.github.io/schemas/conduit.json"
	root["title"] = "conduit.yaml"
	root["$defs"] = map[string]any{"duration": map[string]any{
		"type":     "string",
		"pattern":  `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`,
		"examples": []any{"500ms", "10s", "1h30m"},
	}}
	for _, g := range Groups() {
		add(root, g.Key, object(g.Description))
	}
	for _, s := range Settings() {
		add(root, s.Key, property(&s))
	}
	for _, f := range ForeignSettings() {
		key := f.Key
		for _, group := range foreignGroups {
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
		panic(err) // it consists of texts and numbers
	}
	return text.Bytes()
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
func property(s *Setting) map[string]any {
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
