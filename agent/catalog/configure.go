package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// localConfigure are the built-in connectors whose Configure reads variables and files of the machine.
var localConfigure = []string{"postgres", "s3"}

// configure returns the problems that Configure of a built-in connector reports about settings without references. It
// may read variables and files. With alone they are not those of the agent, and what depends on them is a warning.
func configure(
	ctx context.Context, host *plugins.Host, path string, found plugins.Installed, typ spec.ConnectorType,
	settings map[string]string, alone bool,
) (problems []spec.Problem) {
	var instance interface {
		Configure(ctx context.Context, settings map[string]string) error
		Teardown(ctx context.Context) error
	}
	var err error
	if name, id := found.FullName().String(), "check:"+found.Name; typ == spec.TypeSource {
		instance, err = host.Source(ctx, name, id)
	} else {
		instance, err = host.Destination(ctx, name, id)
	}
	if err != nil {
		return nil // another check reports it
	}
	defer func() { _ = instance.Teardown(ctx) }()
	err = instance.Configure(ctx, settings)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	for _, wrong := range settingErrors(err) {
		problems = append(problems, problem(path+"/settings/"+schemas.EscapePointer(wrong.Setting),
			"config.field_invalid", wrong.Error()))
	}
	if problems == nil {
		problems = append(problems, problem(path+"/settings", "config.field_invalid", err.Error()))
	}
	hide := &redact.Redactor{}
	hide.AddSettings(settings)
	for i := range problems {
		problems[i].Message = hide.Text(problems[i].Message)
		if alone && slices.Contains(localConfigure, found.Name) {
			problems[i].Severity = spec.SeverityWarning
		}
	}
	return problems
}

// settingErrors returns the errors about settings in the tree of err.
func settingErrors(err error) (all []sdk.SettingError) {
	if wrong, ok := err.(sdk.SettingError); ok {
		return []sdk.SettingError{wrong}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, settingErrors(one)...)
		}
		return all
	}
	if inner := errors.Unwrap(err); inner != nil {
		return settingErrors(inner)
	}
	return nil
}
