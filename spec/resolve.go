package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/schemas"
)

// Resolve returns a copy of p with the references in plugin names and settings replaced by their values. If some
// references cannot be resolved, it returns nil and their problems. When there are no references it returns p itself.
// Values are literal: references in them are not replaced. One newline at the end of a file or credential is cut. Paths
// are pointers within p. Problems never contain values.
func Resolve(p *Pipeline, lookup Lookup) (*Pipeline, []Problem) {
	if isLiteral(p) {
		return p, nil
	}
	resolved := p.Clone()
	r := &report{}
	eachText(resolved, func(path, what string, text *string) {
		value, err := lookup.Expand(*text)
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
	return plain(p.DeadLetterQueue.Plugin, p.DeadLetterQueue.Settings) && !slices.ContainsFunc(p.Processors, refers)
}

// checkResolvedPlugin checks a plugin name from outside the pipeline. Its problems do not contain the name.
func checkResolvedPlugin(r *report, path, plugin string) {
	if plugin == "" {
		r.add(path, SeverityError, CodeRequired, "plugin is empty after its references are resolved")
		return
	}
	probe := &report{}
	checkPlugin(probe, path, strings.ReplaceAll(plugin, "$", "$$")) // a remaining $ is literal
	if len(probe.problems) > 0 {
		r.add(path, SeverityError, CodeInvalid, "plugin is not the name of a plugin after its references are resolved")
	}
}

// References returns every reference in the plugin names and settings of p, in the order of its parts. Malformed
// references are left out.
func References(p *Pipeline) []Reference {
	var all []Reference
	eachText(p.Clone(), func(path, _ string, text *string) {
		found, _ := ReferenceKinds(nil).Scan(*text)
		for _, one := range found {
			one.Path = path
			all = append(all, one)
		}
	})
	return all
}

// eachText calls do with every text of p that may hold references: its pointer, a description, and the text, which do
// may replace.
func eachText(p *Pipeline, do func(path, what string, text *string)) {
	for i := range p.Connectors {
		c, at := &p.Connectors[i], fmt.Sprintf("/connectors/%d", i)
		owner := fmt.Sprintf("connector %q", c.ID)
		do(at+"/plugin", "plugin of "+owner, &c.Plugin)
		eachSetting(at, owner, c.Settings, do)
		eachProcessor(at, c.Processors, do)
	}
	eachProcessor("", p.Processors, do)
	const queue = "the dead-letter queue"
	do("/dead-letter-queue/plugin", "plugin of "+queue, &p.DeadLetterQueue.Plugin)
	eachSetting("/dead-letter-queue", queue, p.DeadLetterQueue.Settings, do)
}

func eachProcessor(at string, all []Processor, do func(path, what string, text *string)) {
	for i := range all {
		at, owner := fmt.Sprintf("%s/processors/%d", at, i), fmt.Sprintf("processor %q", all[i].ID)
		do(at+"/plugin", "plugin of "+owner, &all[i].Plugin)
		eachSetting(at, owner, all[i].Settings, do)
	}
}

func eachSetting(at, owner string, settings map[string]string, do func(path, what string, text *string)) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		do(at+"/settings/"+schemas.EscapePointer(name), fmt.Sprintf("setting %q of %s", name, owner), &value)
		settings[name] = value
	}
}
