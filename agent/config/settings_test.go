package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/schemas"
)

// keysOf returns the keys of a struct in the koanf tags, with the type of each.
func keysOf(t reflect.Type, prefix string) map[string]string {
	keys := map[string]string{}
	for f := range t.Fields() {
		if f.Tag.Get("koanf") == "-" {
			continue
		}
		key := prefix + f.Tag.Get("koanf")
		switch {
		case f.Type == reflect.TypeFor[time.Duration]():
			keys[key] = "duration"
		case f.Type.Kind() == reflect.Struct:
			for k, v := range keysOf(f.Type, key+".") {
				keys[k] = v
			}
		default:
			keys[key] = f.Type.String()
		}
	}
	return keys
}

func TestStructAndTableAgree(t *testing.T) {
	table := map[string]string{}
	for _, s := range config.Settings() {
		table[s.Key] = s.Type()
	}
	if diff := cmp.Diff(keysOf(reflect.TypeFor[config.Config](), ""), table); diff != "" {
		t.Errorf("(-struct +table):\n%s", diff)
	}
}

type node struct {
	Description string
	Type        any
	Ref         string `json:"$ref"`
	Default     any
	Enum        []string
	Deprecated  bool
	Properties  map[string]*node
}

// leaves returns the settings in a schema.
func leaves(n *node, prefix string) map[string]*node {
	found := map[string]*node{}
	for name, p := range n.Properties {
		if p.Properties == nil {
			found[prefix+name] = p
			continue
		}
		for key, leaf := range leaves(p, prefix+name+".") {
			found[key] = leaf
		}
	}
	return found
}

func TestSchemaAndTableAgree(t *testing.T) {
	var root node
	d := json.NewDecoder(bytes.NewReader(schemas.Source(schemas.AgentConfig)))
	d.UseNumber() // large numbers keep their text
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	inSchema := leaves(&root, "")
	for _, s := range config.Settings() {
		n := inSchema[s.Key]
		delete(inSchema, s.Key)
		if n == nil {
			t.Errorf("%s is not in the schema", s.Key)
			continue
		}
		if n.Description != s.Description || fmt.Sprint(n.Default) != s.DefaultText() || !slices.Equal(n.Enum, s.Values) {
			t.Errorf("%s differs in the schema: %+v", s.Key, n)
		}
	}
	for key, n := range inSchema {
		if !n.Deprecated {
			t.Errorf("%s is in the schema only", key)
		}
		_, warnings, err := load(t, key+": x", nil, nil)
		if err != "" || len(warnings) != 1 {
			t.Errorf("%s: want one warning, got %v %v", key, warnings, err)
		}
	}
}

func TestReadmeListsAllSettings(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Settings() {
		if row := fmt.Sprintf("| `%s` | `%s` | %s |", s.Key, s.DefaultText(), s.Description); !strings.Contains(string(readme), row) {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
}
