package config_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/schemas"
)

// fields returns the name of every field that holds a setting, by its address.
func fields(v reflect.Value, path string) map[any]string {
	all := map[any]string{}
	for f, value := range v.Fields() {
		switch {
		case f.Type.Kind() == reflect.Struct:
			maps.Copy(all, fields(value, path+"."+f.Name))
		case f.Name != "File" && f.Name != "Dir" && f.Name != "Effective":
			all[value.Addr().Interface()] = path + "." + f.Name
		}
	}
	return all
}

// Every field has exactly one declaration, with a default of its type.
func TestEveryFieldIsDeclared(t *testing.T) {
	var c config.Config
	undeclared, keys := fields(reflect.ValueOf(&c).Elem(), "Config"), map[string]bool{}
	for _, s := range c.Fields() {
		if undeclared[s.Field] == "" {
			t.Errorf("%s: its field is that of another setting, or not in Config", s.Key)
		}
		delete(undeclared, s.Field)
		if d, f := reflect.TypeOf(s.Default), reflect.TypeOf(s.Field).Elem(); d != f {
			t.Errorf("%s: the default is %v, and the field is %v", s.Key, d, f)
		}
		if keys[s.Key] || s.Description == "" || !strings.HasSuffix(s.Description, ".") {
			t.Errorf("%s: declared twice, or not described in sentences", s.Key)
		}
		keys[s.Key] = true
	}
	for _, name := range undeclared {
		t.Errorf("%s has no declaration", name)
	}
}

// Every group of a setting is described, and every description is for a group.
func TestGroupsAreThoseOfTheSettings(t *testing.T) {
	used, described := map[string]bool{}, map[string]bool{}
	for _, s := range config.Settings() {
		for group := s.Key; strings.Contains(group, "."); {
			group = group[:strings.LastIndex(group, ".")]
			used[group] = true
		}
	}
	for _, g := range config.Groups() {
		described[g.Key] = true
	}
	if !maps.Equal(used, described) {
		t.Errorf("groups are %v, and descriptions are for %v",
			slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(described)))
	}
}

// samples returns two different values that s allows, as a user would write them. The first is not the default.
func samples(s *config.Setting) (first, second string) {
	switch s.Default.(type) {
	case bool:
		return fmt.Sprint(s.Default != true), s.DefaultText()
	case int, int64:
		return "1" + strings.TrimPrefix(s.DefaultText(), "-"), s.DefaultText()
	case time.Duration:
		return "61s", "1h1s"
	}
	switch {
	case len(s.Values) > 0:
		return s.Values[len(s.Values)-1], s.Values[0]
	case s.Octal:
		return "0640", "0604"
	}
	return "/srv/first", "second"
}

// line returns the line of conduit.yaml for a value.
func line(s *config.Setting, text string) string {
	if s.Type() == "string" {
		quoted, _ := json.Marshal(text)
		text = string(quoted)
	}
	return s.Key + ": " + text
}

// file returns a conduit.yaml with a value for each setting, and the place of each.
func file(all []config.Setting, value func(s *config.Setting) string) (text string, places map[string]string) {
	var b strings.Builder
	places = map[string]string{}
	for i := range all {
		places[all[i].Key] = fmt.Sprintf("conduit.yaml:%d:1", len(places)+1)
		fmt.Fprintln(&b, line(&all[i], value(&all[i])))
	}
	return b.String(), places
}

// compatible splits the settings into sets that may be set together: a cluster has one store.
func compatible() [][]config.Setting {
	other := func(s config.Setting) bool { return s.Key == "cluster.postgres.url" }
	name, _ := config.Find("cluster.name")
	url, _ := config.Find("cluster.postgres.url")
	return [][]config.Setting{slices.DeleteFunc(config.Settings(), other), {name, url}}
}

// The default, the file, the variable and the flag of every setting reach its field, and each takes precedence over
// the one before.
func TestEverySettingReachesItsField(t *testing.T) {
	for _, all := range compatible() {
		env, flags := []string{}, map[string]string{}
		for _, s := range all {
			first, second := samples(&s)
			env = append(env, s.Env()+"="+second)
			flags[s.Key] = first
		}
		inFile, places := file(all, func(s *config.Setting) string { first, _ := samples(s); return first })
		for _, test := range []struct {
			from string
			config.Sources
			yaml         string
			want, origin func(s *config.Setting) string
		}{
			{"default", config.Sources{}, "", func(s *config.Setting) string { return s.DefaultText() },
				func(*config.Setting) string { return "default" }},
			{"file", config.Sources{}, inFile, func(s *config.Setting) string { return flags[s.Key] },
				func(s *config.Setting) string { return places[s.Key] }},
			{"variable", config.Sources{Env: env}, inFile,
				func(s *config.Setting) string { _, second := samples(s); return second },
				func(s *config.Setting) string { return s.Env() }},
			{"flag", config.Sources{Env: env, Flags: flags}, inFile, func(s *config.Setting) string {
				return flags[s.Key]
			},
				func(s *config.Setting) string { return "--" + s.Key }},
		} {
			t.Chdir(t.TempDir())
			write(t, "conduit.yaml", test.yaml)
			c, warnings, err := config.Load(test.Sources)
			if err != nil || warnings != nil {
				t.Fatal(test.from, err, warnings)
			}
			keys := map[string]bool{}
			for _, s := range all {
				keys[s.Key] = true
			}
			for i, s := range c.Fields() {
				if want := parsed(&s, test.want(&s)); keys[s.Key] && s.Value() != want {
					t.Errorf("%s: from %s comes %v, want %v", s.Key, test.from, s.Value(), want)
				}
				if e := c.Effective[i]; keys[s.Key] && (e.Key != s.Key || e.Origin != test.origin(&s)) {
					t.Errorf("%s: in effect from %s is %+v, want origin %s", s.Key, test.from, e, test.origin(&s))
				}
			}
		}
	}
}

// parsed returns text in the type of s.
func parsed(s *config.Setting, text string) any {
	var value any = text
	switch s.Default.(type) {
	case bool:
		value = text == "true"
	case int:
		value, _ = strconv.Atoi(text)
	case int64:
		value, _ = strconv.ParseInt(text, 10, 64)
	case time.Duration:
		value, _ = time.ParseDuration(text)
	}
	return value
}

// tooLarge are values that only the type of a field, or the reader of YAML, refuses.
var tooLarge = []string{"9999999999h", "18446744073709551615", "0999"}

// wrong returns values of conduit.yaml that s does not allow.
func wrong(s *config.Setting) []string {
	switch s.Default.(type) {
	case bool:
		return []string{"maybe", "2", "[true]", "'true'"}
	case int, int64:
		return []string{fmt.Sprint(s.Min - 1), "0.5", "many", "[1]", "18446744073709551615", "'1'"}
	case time.Duration:
		return []string{"10", "soon", "-1s", "[1s]", ".5s", "9999999999h"}
	}
	all := []string{"5", "true", "[[a]]", "[{a: b}]"}
	if !s.List {
		all = append(all, "[a]")
	}
	if len(s.Values) > 0 {
		all = append(all, "no-such-value")
	}
	if s.Required {
		all = append(all, "''")
	}
	if s.Required && s.List {
		all = append(all, "[]")
	}
	if s.Octal {
		all = []string{"0999", "'06'", "[0660]", "true"}
	}
	return all
}

// Wrong values are refused with their place and key, all at once, and an editor marks them by the schema.
func TestWrongValuesAreRefused(t *testing.T) {
	for round, more := 0, true; more; round++ {
		more = false
		var inFile strings.Builder
		var want []string
		env, flags := []string{}, map[string]string{}
		for _, s := range config.Settings() {
			if round >= len(wrong(&s)) {
				continue
			}
			more = true
			value := wrong(&s)[round]
			fmt.Fprintf(&inFile, "%s: %s\n", s.Key, value)
			want = append(want, fmt.Sprintf("conduit.yaml:%d:1: %s: ", strings.Count(inFile.String(), "\n"), s.Key))
			if !slices.Contains(tooLarge, value) && len(violations(t, s.Key+": "+value)) == 0 {
				t.Errorf("%s: %s: the schema allows it", s.Key, value)
			}
			if text := strings.Trim(value, "'"); value == text &&
				(s.Type() != "string" || len(s.Values) > 0 && !s.List) {
				env, flags[s.Key] = append(env, s.Env()+"="+text), text
				want = append(want, s.Env()+": ", "--"+s.Key+": ")
			}
		}
		t.Chdir(t.TempDir())
		write(t, "conduit.yaml", inFile.String())
		_, _, err := config.Load(config.Sources{Env: env, Flags: flags})
		lines := strings.Split(fmt.Sprint(err), "\n")
		for _, place := range want {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, place) }) {
				t.Errorf("round %d: no error begins with %q", round, place)
			}
		}
	}
}

// Values that are allowed are allowed by the schema, too.
func TestSchemaAllowsWhatTheAgentAllows(t *testing.T) {
	for name, value := range map[string]func(s *config.Setting) string{
		"a sample":       func(s *config.Setting) string { first, _ := samples(s); return line(s, first) },
		"another sample": func(s *config.Setting) string { _, second := samples(s); return line(s, second) },
		"default":        func(s *config.Setting) string { return line(s, s.DefaultText()) },
		"example":        func(s *config.Setting) string { return line(s, cmp.Or(s.Example, s.DefaultText())) },
		"least": func(s *config.Setting) string {
			if s.Type() != "int" {
				return ""
			}
			return line(s, strconv.Itoa(s.Min))
		},
		"list": func(s *config.Setting) string {
			first, second := samples(s)
			if !s.List {
				return ""
			}
			return fmt.Sprintf("%s: [%s, %s]", s.Key, first, second)
		},
		"empty list": func(s *config.Setting) string {
			if !s.List || s.Required {
				return ""
			}
			return s.Key + ": []"
		},
	} {
		for _, all := range compatible() {
			var inFile strings.Builder
			for _, s := range all {
				yaml := value(&s)
				fmt.Fprintln(&inFile, yaml)
				if found := violations(t, yaml); len(found) > 0 {
					t.Errorf("%s: the schema does not allow it: %+v", yaml, found)
				}
			}
			_, warnings, err := load(t, inFile.String(), nil, nil)
			if err != "" && all[0].Key != "cluster.name" || warnings != nil {
				t.Errorf("%s: %v %v", name, err, warnings)
			}
		}
	}
}

// violations returns the problems that an editor marks in a line with a dotted key.
func violations(t *testing.T, text string) []schemas.Violation {
	t.Helper()
	var dotted map[string]any
	if err := yaml.Unmarshal([]byte(text), &dotted); err != nil {
		t.Fatal(err)
	}
	for key, value := range dotted {
		for _, part := range slices.Backward(strings.Split(key, ".")) {
			value = map[string]any{part: value}
		}
		return schema.Validate(value)
	}
	return nil
}

// suspicious matches the keys of settings that may be, or name, secrets.
var suspicious = regexp.MustCompile(
	`file|url|secret|token|password|key|credential|connection|auth|socket|command|cert|run$`)

// A declaration with a suspicious key states its secrecy. Files are secret unless they hold certificates.
func TestSecrecyIsDecided(t *testing.T) {
	certificates := regexp.MustCompile(`(cert|ca)-file$`)
	for _, s := range config.Settings() {
		if s.Secrecy == "" && suspicious.MatchString(s.Key) {
			t.Errorf("%s: the declaration does not say whether it is secret", s.Key)
		}
		file := strings.HasSuffix(s.Key, "-file")
		secret := file && !certificates.MatchString(s.Key)
		if (s.Secrecy == config.SecretFile) != secret {
			t.Errorf("%s is %q", s.Key, s.Secrecy)
		}
		if regexp.MustCompile(`\.(url|password|token|connection-string|run)$`).MatchString(s.Key) &&
			s.Secrecy != config.SecretValue && s.Secrecy != config.SecretPart {
			t.Errorf("%s is %q, and may hold a secret", s.Key, s.Secrecy)
		}
	}
}

// The secrets of the agent are listed by their kind, and pipelines must not read their variables.
func TestSecretsOfTheAgent(t *testing.T) {
	flags := map[string]string{}
	for _, s := range config.Settings() {
		if s.Type() == "string" && len(s.Values) == 0 && !s.Octal {
			flags[s.Key] = "of " + s.Key
		}
	}
	delete(flags, "cluster.name")
	c, _, err := config.Load(config.Sources{Path: "/dev/null", Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Settings() {
		for _, kind := range []config.Secrecy{config.SecretFile, config.SecretValue, config.SecretPart} {
			if got := c.OfSecrecy(kind)[s.Key]; (got != "") != (s.Secrecy == kind) || got != "" && got != flags[s.Key] {
				t.Errorf("%s: of kind %s is %q", s.Key, kind, got)
			}
		}
		own := s.Secrecy == config.SecretValue || s.Secrecy == config.SecretPart
		if err := config.CheckVariable(s.Env()); (err != nil) != own {
			t.Errorf("%s: %v", s.Env(), err)
		}
	}
	if config.CheckVariable("HOME") != nil || config.CheckVariable("CLUSTER_POSTGRES_URL") != nil {
		t.Error("other variables are refused")
	}
}

// A value that is a secret, or may contain one, is not shown. The place of a secret is.
func TestSecretValuesAreNotShown(t *testing.T) {
	for e, hidden := range map[config.Effective]bool{
		{Key: "schema-registry.confluent.auth.basic.password", Value: "/a/b"}:  true,
		{Key: "schema-registry.confluent.auth.bearer.token", Value: "/x"}:      true,
		{Key: "notify.webhook.url", Value: "https://hooks.example.com/T0/abc"}: true,
		{Key: "notify.command.run", Value: `["/bin/page"]`}:                    true,
		{Key: "notify.command.run"}:                                            false,
		{Key: "cluster.nats.url", Value: "nats://n1:4222"}:                     false,
		{Key: "cluster.nats.url", Value: "nats://me:pass@n1:4222"}:             true,
		{Key: "cluster.postgres.url", Value: "host=db password=x"}:             true,
		{Key: "api.auth.admin-token-file", Value: "/etc/conduit/token"}:        false,
		{Key: "api.auth.admin-token-file", Value: "A1B2C3"}:                    true,
		{Key: "log.level", Value: "info"}:                                      false,
	} {
		if e.Secret() != hidden {
			t.Errorf("%+v: hidden %t, want %t", e, e.Secret(), hidden)
		}
	}
}
