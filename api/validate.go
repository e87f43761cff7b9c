package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// deadLetterQueuePath is the JSON pointer of the dead-letter queue in a pipeline.
const deadLetterQueuePath = "/dead-letter-queue"

// naming maps a JSON pointer into the pipeline to the path of the same field in a request.
type naming func(pointer string) (path string)

// validate returns the first error of p, with all its errors as violations.
func validate(parser spec.Parser, p *spec.Pipeline, field naming) error {
	var e *rest.Error
	for _, problem := range parser.Validate(p) {
		if problem.Severity != spec.SeverityError {
			continue
		}
		path := field(problem.Path)
		if e == nil {
			e = fieldError(problem.Code, path, problem.Message)
			continue
		}
		e.Violations = append(e.Violations, rest.Violation{Field: path, Description: problem.Message})
	}
	if e == nil {
		return nil
	}
	return e
}

// requestNames maps names of fields in pipeline files to their names in requests.
var requestNames = map[string]string{
	"name": "config.name", "description": "config.description", "settings": "config.settings",
	"workers":     "config.workers",
	"window-size": "windowSize", "window-nack-threshold": "windowNackThreshold",
	"keep-original": "keepOriginal",
}

// within returns the Naming for requests about the resource at the pointer prefix.
func within(prefix string) naming {
	return func(at string) string {
		tokens, inside := strings.CutPrefix(at, prefix+"/")
		first, more, _ := strings.Cut(strings.TrimPrefix(tokens, "/"), "/")
		path, ok := requestNames[first]
		if !ok || !inside || prefix == deadLetterQueuePath && first == "settings" {
			path = joinPath("", schemas.UnescapePointer(first))
		}
		return followPointer(path, more)
	}
}

// CheckPlugins asks the plugins to validate the connectors and the dead-letter queue that differ between old, nil for
// none, and p. The error has all problems.
func (s *desired) CheckPlugins(ctx context.Context, old, p *spec.Pipeline, field naming) (wrong error) {
	for i := range p.Connectors {
		c, at := &p.Connectors[i], "/connectors/"+strconv.Itoa(i)
		if j := connectorIn(old, p.QualifiedID(c.ID)); j >= 0 {
			if was := &old.Connectors[j]; was.Plugin == c.Plugin && was.Type == c.Type &&
				maps.Equal(was.Settings, c.Settings) {
				continue
			}
		}
		wrong = joinErrors(wrong, s.CheckPlugin(ctx, c.Type, c.Plugin, c.Settings, field(at+"/plugin"),
			field(at+"/settings")))
	}
	if q := &p.DeadLetterQueue; q.Plugin != old.DeadLetterQueue.Plugin ||
		!maps.Equal(q.Settings, old.DeadLetterQueue.Settings) {
		wrong = joinErrors(wrong, s.CheckPlugin(ctx, spec.TypeDestination, q.Plugin, q.Settings,
			field(deadLetterQueuePath+"/plugin"), field(deadLetterQueuePath+"/settings")))
	}
	for i, chain := range processorChains(p) {
		if before := processorChains(old); i < len(before) && before[i].Parent == chain.Parent &&
			slices.EqualFunc(*before[i].List, *chain.List, sameProcessor) {
			continue
		}
		wrong = joinErrors(wrong, s.checkChain(ctx, chain, field))
	}
	return wrong
}

func sameProcessor(a, b spec.Processor) bool {
	return a.Plugin == b.Plugin && a.Condition == b.Condition && a.Workers == b.Workers &&
		maps.Equal(a.Settings, b.Settings)
}

// checkChain returns the problems of the processors of a parent.
func (s *desired) checkChain(ctx context.Context, chain processorChain, field naming) error {
	var wrong error
	for _, p := range s.Plugins.CheckProcessors(ctx, chain.Path, *chain.List) {
		path := field(p.Path)
		if p.Code == spec.CodeProcessorNotFound {
			return rest.Errorf(rest.NotFound, spec.CodeProcessorNotFound, "%s", p.Message).With("configPath", path).
				Suggest("GET /v1/processors/plugins lists the processors")
		}
		e := rest.Errorf(rest.FailedPrecondition, p.Code, "invalid processor config: %s", p.Message).With("configPath",
			path)
		e.Violations = []rest.Violation{{Field: path, Description: p.Message}}
		wrong = joinErrors(wrong, e)
	}
	return wrong
}

// joinErrors returns the first of two errors, with the problems of the second added.
func joinErrors(first, second error) error {
	a, ok := first.(*rest.Error)
	b, alike := second.(*rest.Error)
	switch {
	case first == nil:
		return second
	case second == nil || !ok || !alike:
		return first
	}
	for _, e := range []*rest.Error{a, b} {
		if len(e.Violations) == 0 {
			e.Violations = []rest.Violation{{Field: e.Metadata["configPath"], Description: e.Message}}
		}
	}
	a.Violations = append(a.Violations, b.Violations...)
	return a
}

// CheckPlugin lets a plugin validate settings. pluginField and settingsField are the paths of the plugin and the
// settings in the request.
func (s *desired) CheckPlugin(
	ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string, pluginField,
	settingsField string,
) error {
	err := s.Plugins.Check(ctx, typ, plugin, settings)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	}
	hide := hider(settings)
	switch wrong := settingErrors(err); {
	case errors.Is(err, ErrPluginNotFound):
		return rest.Errorf(rest.NotFound, rest.ReasonPluginNotFound, "%v", err).With("configPath", pluginField).
			Suggest("GET /v1/connectors/plugins lists the plugins")
	case len(wrong) > 0:
		e := rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid, "invalid connector config: %s", hide(err.Error()))
		for _, w := range wrong {
			e.Violations = append(e.Violations,
				rest.Violation{Field: joinPath(settingsField, w.Setting), Description: hide(w.Message)})
		}
		return e.With("configPath", e.Violations[0].Field)
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonConnectorRefused, "invalid connector config: %s",
		hide(err.Error())).With("configPath", settingsField)
}

// hider returns a function that redacts all secret values of settings in a text. Where several match, it redacts the
// longest.
func hider(settings map[string]string) func(text string) string {
	var values []string
	for name, value := range settings {
		if value = strings.TrimSpace(value); spec.IsSecret(name, value) {
			quoted := strconv.Quote(value)
			values = append(values, value, quoted[1:len(quoted)-1])
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, value := range slices.Compact(values) {
		pairs = append(pairs, value, spec.Redacted)
	}
	return strings.NewReplacer(pairs...).Replace
}

// settingErrors returns every SettingError in err.
func settingErrors(err error) []*SettingError {
	switch e := err.(type) {
	case *SettingError:
		return []*SettingError{e}
	case interface{ Unwrap() []error }:
		var all []*SettingError
		for _, one := range e.Unwrap() {
			all = append(all, settingErrors(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		return settingErrors(e.Unwrap())
	}
	return nil
}
