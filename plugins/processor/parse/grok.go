package parse

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	gogrok "github.com/elastic/go-grok"
	"github.com/elastic/go-grok/patterns"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// grok parses a text by an expression of named patterns.
type grok struct {
	options
	// RE2 expression in which %{PATTERN:name} or %{PATTERN:name:type} stands for a text of this pattern, such as
	// %{IP:client.address} %{NUMBER:ms:float}. It may match anywhere: ^ and $ stand for the ends of the text. The types
	// are those of types, and long and double.
	Pattern string `json:"pattern" validate:"required"`
	// Pattern of your own with this name. It may use other patterns, and replaces one of the library.
	Patterns map[string]string `json:"patterns.*"`
	typed
}

// maxPattern is the size in bytes that an expression may have once all patterns are in it.
const maxPattern = 256 << 10

// use is the use of a pattern in an expression, as the library reads it: its name, the name of the member and its type.
var use = regexp.MustCompile(`%{(\w+)(?::([\w+.]+)(?::(\w+))?)?}`)

func (x *grok) compile() (parseFunc, error) {
	d := definitions{all: library(), sizes: map[string]int{}, types: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(x.Patterns)) {
		if found := use.FindStringSubmatch("%{" + name + "}"); found == nil || found[1] != name {
			return nil, sdk.SettingError{Setting: "patterns." + name, Message: "the name of a pattern has letters, " +
				"digits and underscores"}
		}
		d.all[name] = x.Patterns[name]
	}
	if _, err := d.size(x.Pattern); err != nil {
		return nil, sdk.SettingError{Setting: "pattern", Message: err.Error()}
	}
	expression := gogrok.NewWithoutDefaultPatterns()
	err := expression.AddPatterns(d.all)
	if err == nil {
		err = expression.Compile(x.Pattern, true)
	}
	if err == nil && len(d.types) == 0 {
		err = fmt.Errorf("it names no member, as %%{IP:client} does")
	}
	if err == nil {
		err = d.checkNames()
	}
	if err != nil {
		return nil, sdk.SettingError{Setting: "pattern", Message: err.Error()}
	}
	all, err := x.compileTypes(slices.Sorted(maps.Keys(d.types)))
	if err != nil {
		return nil, err
	}
	for name, kind := range d.types {
		if kind != "" {
			all.SetDefault(name, kind)
		}
	}
	return func(_ context.Context, v any, m *memory) (any, error) {
		text, err := textOf(v)
		if err != nil {
			return nil, err
		}
		if err := m.take(memberBytes * len(d.types)); err != nil {
			return nil, err
		}
		found, err := expression.ParseString(text)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !expression.MatchString(text) {
			return nil, errNoMatch
		}
		made := make(map[string]any, len(found))
		for name, text := range found {
			read := all.Reader(name)
			v, err := read.Value(name, text)
			if err != nil {
				return nil, err
			}
			setNested(made, name, v)
		}
		return made, nil
	}, nil
}

// library returns the patterns of the library by name.
func library() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]string{patterns.Default, patterns.AWS, patterns.Bind9, patterns.Bro, patterns.Exim,
		patterns.HAProxy, patterns.Httpd, patterns.Firewalls, patterns.Java, patterns.Junos, patterns.Maven,
		patterns.MCollective, patterns.MongoDB, patterns.PostgreSQL, patterns.Rails, patterns.Redis, patterns.Ruby,
		patterns.Squid, patterns.Syslog} {
		maps.Copy(all, some)
	}
	return all
}

// definitions are patterns by name. The library puts them into an expression without a bound, so their uses are
// followed first.
type definitions struct {
	all   map[string]string
	path  []string
	sizes map[string]int    // of patterns with all that they use
	types map[string]string // of members by name
}

// size returns the size of an expression with all patterns in it.
func (d *definitions) size(expression string) (int, error) {
	total := len(expression)
	for _, found := range use.FindAllStringSubmatch(expression, -1) {
		name, member, kind := found[1], found[2], found[3]
		definition, ok := d.all[name]
		switch {
		case !ok:
			return 0, fmt.Errorf("there is no pattern %s", texttype.Quoted(name))
		case slices.Contains(d.path, name):
			return 0, fmt.Errorf("the pattern %s uses itself", texttype.Quoted(name))
		}
		if member != "" {
			if kind = canonicalType(kind); kind != "" && !slices.Contains(texttype.Names, kind) {
				return 0, fmt.Errorf("want string, int, float, bool, time or auto as the type of %s, not %s",
					texttype.Quoted(member), texttype.Quoted(found[3]))
			}
			d.types[member] = kind
		}
		size, ok := d.sizes[name]
		if !ok {
			d.path = append(d.path, name)
			var err error
			if size, err = d.size(definition); err != nil {
				return 0, err
			}
			d.path = d.path[:len(d.path)-1]
			d.sizes[name] = size
		}
		if total += size; total > maxPattern {
			return 0, fmt.Errorf("with all patterns in it, the expression is larger than %d KiB", maxPattern>>10)
		}
	}
	return total, nil
}

// checkNames returns an error if a member would be a value and an object.
func (d *definitions) checkNames() error {
	for name := range d.types {
		if slices.Contains(strings.Split(name, "."), "") {
			return fmt.Errorf("%s is no name of a member: it has nothing before, between or after dots", texttype.Quoted(name))
		}
		for i, c := range name {
			if _, ok := d.types[name[:i]]; ok && c == '.' {
				return fmt.Errorf("%s is a value, and as a part of %s an object", texttype.Quoted(name[:i]), texttype.Quoted(name))
			}
		}
	}
	return nil
}

// canonicalType returns the name that other parsers have for a type of grok.
func canonicalType(kind string) string {
	switch kind {
	case "long":
		return "int"
	case "double":
		return "float"
	case "boolean":
		return "bool"
	}
	return kind
}

// setNested sets a member, whose name has a dot between the objects that it is in.
func setNested(made map[string]any, name string, v any) {
	for {
		object, rest, nested := strings.Cut(name, ".")
		if !nested {
			made[name] = v
			return
		}
		inner, ok := made[object].(map[string]any)
		if !ok {
			inner = map[string]any{}
			made[object] = inner
		}
		made, name = inner, rest
	}
}
