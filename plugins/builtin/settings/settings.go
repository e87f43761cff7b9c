// Package settings reads the settings of built-in connectors.
package settings

import "github.com/conduit-agent/conduit/plugins/sdk"

// Parse replaces what into points to by the settings that values hold, and checks them: first each
// for itself as sdk.Decode does, then all of them by check, which is to be a method of into.
func Parse[S any](values map[string]string, into *S, check func() error) error {
	*into = *new(S)
	if err := sdk.Decode(values, into); err != nil {
		return err
	}
	return check()
}
