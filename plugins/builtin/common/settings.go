package common

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// ParseSettings sets *into to the decoded settings in values. It first validates each setting, as sdk.Decode does, and
// then calls check, which validates combinations of settings in *into.
func ParseSettings[S any](values map[string]string, into *S, check func() error) error {
	*into = *new(S)
	if err := sdk.Decode(values, into); err != nil {
		return err
	}
	return check()
}

// ParseTemplate parses a setting that is a template. If check is not nil, Template calls it with a text that does not
// depend on the record. The error is an sdk.SettingError.
func ParseTemplate(setting, text string, check func(string) error) (*template.Template, error) {
	t, err := template.Parse(text, template.Strict)
	if err == nil && check != nil {
		if constant, ok := t.Constant(); ok {
			err = check(constant)
		}
	}
	if err != nil {
		return nil, sdk.SettingError{Setting: setting, Message: err.Error()}
	}
	return t, nil
}
