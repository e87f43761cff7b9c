package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// Check returns the problems of declared processors: missing plugins, conditions that cannot be parsed, and settings
// that break a rule or that the processor refuses. at is the JSON pointer of the list. Settings with references whose
// values are known only when the pipeline starts are checked then.
func (r *Registry) Check(ctx context.Context, at string, declared []spec.Processor) []spec.Problem {
	var problems []spec.Problem
	for i, d := range declared {
		problems = append(problems, r.checkOne(ctx, fmt.Sprintf("%s/%d", at, i), d)...)
	}
	return problems
}

func (r *Registry) checkOne(ctx context.Context, at string, d spec.Processor) (problems []spec.Problem) {
	add := func(path, code, format string, args ...any) {
		problems = append(problems, spec.Problem{Path: at + path, Severity: spec.SeverityError, Code: code,
			Message: fmt.Sprintf(format, args...)})
	}
	if _, err := template.ParseCondition(d.Condition); err != nil {
		add("/condition", spec.CodeInvalid, "condition of processor %q: %v", d.ID, err)
	}
	if strings.Contains(d.Plugin, "$") {
		return problems
	}
	plugin, builtin, err := r.Find(d.Plugin)
	if err != nil {
		add("/plugin", spec.CodeProcessorNotFound, "%v", err)
		return problems
	}
	if err := checkWorkers(plugin, d.Workers); err != nil {
		add("/workers", spec.CodeInvalid, "workers of processor %q: %v", d.ID, err)
	}
	for _, wrong := range r.checkSettings(ctx, plugin, d.Settings) {
		if wrong.Setting == "" {
			add("/settings", spec.CodeInvalid, "settings of processor %q: %s", d.ID, wrong.Message)
		} else {
			add("/settings/"+schemas.EscapePointer(wrong.Setting), spec.CodeInvalid,
				"setting %q of processor %q: %s", wrong.Setting, d.ID, wrong.Message)
		}
	}
	if len(problems) > 0 || !builtin {
		return problems
	}
	if setting, warning := checkTime(plugin, d.Settings, r.TimeLimit); warning != "" {
		add("/settings/"+schemas.EscapePointer(setting), spec.CodeInvalid,
			"setting %q of processor %q: %s", setting, d.ID, warning)
		problems[0].Severity = spec.SeverityWarning
	}
	return problems
}

// checkSettings returns the problems of a processor's settings. A SettingError without a setting is about all settings.
func (r *Registry) checkSettings(
	ctx context.Context, plugin sdk.ProcessorPlugin, settings map[string]string,
) (wrong []sdk.SettingError) {
	literal, known := make(map[string]string, len(settings)), true
	for name, value := range settings {
		text, ok := spec.LiteralText(value)
		literal[name], known = text, known && ok
	}
	err := contain(func() error {
		for _, e := range Parameters(plugin).Check(literal) {
			if _, ok := spec.LiteralText(settings[e.Setting]); ok {
				wrong = append(wrong, e)
			}
		}
		if !known {
			return nil
		}
		if len(wrong) > 0 {
			return nil
		}
		_, own, err := splitSettings(plugin, literal)
		if err != nil {
			return err
		}
		ctx := sdk.WithEnv(ctx, &sdk.Env{Logger: slog.New(slog.DiscardHandler), AllowPath: r.AllowPath})
		p := plugin.New()
		return errors.Join(p.Configure(ctx, own), p.Teardown(ctx))
	})
	return append(wrong, settingErrors(err)...)
}

// settingErrors returns the parts of err: errors that name a setting, and other errors.
func settingErrors(err error) []sdk.SettingError {
	var one sdk.SettingError
	switch joined := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var all []sdk.SettingError
		for _, e := range joined.Unwrap() {
			all = append(all, settingErrors(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []sdk.SettingError{one}
	}
	return []sdk.SettingError{{Message: err.Error()}}
}
