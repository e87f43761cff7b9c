package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/pointer"
)

// Lookup finds the values of references. A nil function refuses its kind.
type Lookup struct {
	Env        func(name string) (value string, ok bool)
	File       func(path string) (string, error)
	Credential func(name string) (string, error)
	// Found, when set, is called with the value of every reference, and of every text that
	// holds references.
	Found func(declared, value string)
}

// Resolve returns a copy of p in which the references in plugin names and settings are
// replaced by what they refer to, and the problems of those that cannot be; then the
// copy is nil. When there are no references it returns p itself. Values are taken as
// they are: references in them are not replaced. One newline at the end of a file or
// credential is cut. Paths are pointers within p. Problems never contain values.
func Resolve(p *Pipeline, lookup Lookup) (*Pipeline, []Problem) {
	if isLiteral(p) {
		return p, nil
	}
	resolved := p.Clone()
	r := &report{}
	eachText(resolved, func(path, what string, text *string) {
		value, err := lookup.expand(*text)
		if err != nil {
			r.add(path, SeverityError, CodeReferenceLost, "%s: %v", what, err)
			return
		}
		changed := value != *text
		*text = value
		if changed && strings.HasSuffix(path, "/plugin") && !strings.Contains(path, "/settings/") {
			checkResolvedPlugin(r, path, value)
		}
	})
	if len(r.problems) == 0 {
		return resolved, nil
	}
	for i := range r.problems {
		r.problems[i].Pipeline = p.ID
	}
	return nil, r.problems
}

// isLiteral reports whether no text of p holds a reference.
func isLiteral(p *Pipeline) bool {
	plain := func(plugin string, settings map[string]string) bool {
		for _, value := range settings {
			if strings.Contains(value, "$") {
				return false
			}
		}
		return !strings.Contains(plugin, "$")
	}
	refers := func(p Processor) bool { return !plain(p.Plugin, p.Settings) }
	for i := range p.Connectors {
		c := &p.Connectors[i]
		if !plain(c.Plugin, c.Settings) || slices.ContainsFunc(c.Processors, refers) {
			return false
		}
	}
	return plain(p.DLQ.Plugin, p.DLQ.Settings) && !slices.ContainsFunc(p.Processors, refers)
}

// checkResolvedPlugin checks a plugin name that came from outside, without repeating it.
func checkResolvedPlugin(r *report, path, plugin string) {
	if plugin == "" {
		r.add(path, SeverityError, CodeRequired, "plugin is empty once its references are resolved")
		return
	}
	probe := &report{}
	checkPlugin(probe, path, strings.ReplaceAll(plugin, "$", "$$")) // what is left of $ is literal
	if len(probe.problems) > 0 {
		r.add(path, SeverityError, CodeInvalid, "plugin is not the name of a plugin once its references are resolved")
	}
}

// expand returns text with its references replaced.
func (l Lookup) expand(text string) (string, error) {
	pieces, problem := cut(text)
	if problem != "" {
		return "", fmt.Errorf("%s", problem)
	}
	var b strings.Builder
	for _, p := range pieces {
		value, err := l.value(p)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		if p.source != "" {
			l.found(p.source, value)
		}
	}
	if slices.ContainsFunc(pieces, func(p piece) bool { return p.source != "" }) {
		l.found(text, b.String())
	}
	return b.String(), nil
}

func (l Lookup) found(declared, value string) {
	if l.Found != nil {
		l.Found(declared, value)
	}
}

func (l Lookup) value(p piece) (string, error) {
	switch p.Kind {
	case ReferenceEnv:
		return l.env(p)
	case ReferenceFile:
		return read(l.File, "file", p.Name)
	case ReferenceCredential:
		return read(l.Credential, "credential", p.Name)
	}
	return p.literal, nil
}

func (l Lookup) env(p piece) (string, error) {
	if l.Env == nil {
		return "", fmt.Errorf("environment variable %s cannot be used here", p.Name)
	}
	value, ok := l.Env(p.Name)
	switch {
	case ok && (value != "" || !p.strict):
		return value, nil
	case p.Optional:
		return p.fallback, nil
	case p.demand != "":
		return "", fmt.Errorf("environment variable %s is not set: %s", p.Name, p.demand)
	}
	return "", fmt.Errorf("environment variable %s is not set: set it for the agent, write ${%s:-default}, or $$ for a literal $", p.Name, p.Name)
}

func read(from func(string) (string, error), what, name string) (string, error) {
	if from == nil {
		return "", fmt.Errorf("%s %s cannot be used here", what, name)
	}
	value, err := from(name)
	if err != nil {
		return "", fmt.Errorf("cannot read %s %s: %w", what, name, err)
	}
	if line, ok := strings.CutSuffix(value, "\n"); ok {
		return strings.TrimSuffix(line, "\r"), nil
	}
	return value, nil
}

// eachText calls do with every text of p that may hold references: its pointer, what
// to call it, and the text, which do may replace.
func eachText(p *Pipeline, do func(path, what string, text *string)) {
	for i := range p.Connectors {
		c, at := &p.Connectors[i], fmt.Sprintf("/connectors/%d", i)
		of := fmt.Sprintf("connector %q", c.ID)
		do(at+"/plugin", "plugin of "+of, &c.Plugin)
		eachSetting(at, of, c.Settings, do)
		eachProcessor(at, c.Processors, do)
	}
	eachProcessor("", p.Processors, do)
	const queue = "the dead-letter queue"
	do("/dead-letter-queue/plugin", "plugin of "+queue, &p.DLQ.Plugin)
	eachSetting("/dead-letter-queue", queue, p.DLQ.Settings, do)
}

func eachProcessor(at string, all []Processor, do func(path, what string, text *string)) {
	for i := range all {
		at, of := fmt.Sprintf("%s/processors/%d", at, i), fmt.Sprintf("processor %q", all[i].ID)
		do(at+"/plugin", "plugin of "+of, &all[i].Plugin)
		eachSetting(at, of, all[i].Settings, do)
	}
}

func eachSetting(at, of string, settings map[string]string, do func(path, what string, text *string)) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		do(at+"/settings/"+pointer.Escape(name), fmt.Sprintf("setting %q of %s", name, of), &value)
		settings[name] = value
	}
}
