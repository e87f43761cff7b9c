// Package settings reads the settings of built-in connectors, those of TLS among them.
package settings

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// Parse replaces what into points to by the settings that values hold, and checks them: first each
// for itself as sdk.Decode does, then all of them by check, which reads them there.
func Parse[S any](values map[string]string, into *S, check func() error) error {
	*into = *new(S)
	if err := sdk.Decode(values, into); err != nil {
		return err
	}
	return check()
}

// Template parses the template that a setting is. A text that is the same for all records is given to check, if
// that is not nil. The error is an sdk.SettingError.
func Template(setting, text string, check func(string) error) (*template.Template, error) {
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
