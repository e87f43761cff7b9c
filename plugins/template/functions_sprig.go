//go:build !minimal

package template

import (
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// library returns the functions that are added to those of text/template: all of sprig but those
// that read the environment or the network.
func library() template.FuncMap {
	funcs := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(funcs, name)
	}
	funcs["toJson"], funcs["mustToJson"] = toJSON, toJSON
	for _, name := range []string{"toPrettyJson", "toRawJson"} { // those that return an error in place of nothing
		funcs[name] = funcs["mustT"+name[1:]]
	}
	funcs["dig"] = dig(funcs["dig"].(func(...any) (any, error)))
	return funcs
}

// dig is sprig's, which takes no other type of map than map[string]any.
func dig(inner func(...any) (any, error)) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		if last := len(args) - 1; last >= 0 {
			if m, ok := args[last].(structured); ok {
				args[last] = map[string]any(m)
			}
		}
		return inner(args...)
	}
}
