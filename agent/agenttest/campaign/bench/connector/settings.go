package main

import (
	"maps"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// with returns the parameters p and the parameters of settings.
func with(p sdk.Parameters, settings any) sdk.Parameters {
	p = maps.Clone(p)
	maps.Copy(p, sdk.Described(settings, descriptions))
	return p
}

// split decodes the settings that belong to own, a pointer to a struct, and returns the rest.
func split(settings map[string]string, own any) (rest map[string]string, err error) {
	params := sdk.ParametersOf(own)
	isOwn := func(name, _ string) bool { _, ok := params[name]; return ok }
	rest, mine := maps.Clone(settings), maps.Clone(settings)
	maps.DeleteFunc(rest, isOwn)
	maps.DeleteFunc(mine, func(name, value string) bool { return !isOwn(name, value) })
	return rest, sdk.Decode(mine, own)
}
