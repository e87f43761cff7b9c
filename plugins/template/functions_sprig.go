package template

import (
	"fmt"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// library returns the functions added to those in text/template: all functions of sprig, except those that read the
// environment or the network.
func library() template.FuncMap {
	funcs := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(funcs, name)
	}
	funcs["toJson"], funcs["mustToJson"] = toJSON, toJSON
	for _, name := range []string{"toPrettyJson", "toRawJson"} { // variants that return errors
		funcs[name] = funcs["mustT"+name[1:]]
	}
	funcs["mustFromJson"] = fromJSON
	funcs["fromJson"] = func(text string) any { v, _ := fromJSON(text); return v } // nil on error
	funcs["genPrivateKey"] = genPrivateKey(funcs["genPrivateKey"].(func(string) string))
	for _, name := range []string{"genCA", "genSelfSignedCert", "genSignedCert"} {
		funcs[name] = noKey(name)
	}
	funcs["dig"] = dig(funcs["dig"].(func(...any) (any, error)))
	return funcs
}

// genPrivateKey restricts sprig's function to key types that are fast to make. Others take seconds, during which a
// template cannot be interrupted.
func genPrivateKey(inner func(string) string) func(string) (string, error) {
	return func(kind string) (string, error) {
		if kind != "ecdsa" && kind != "ed25519" {
			return "", fmt.Errorf("cannot make a key of type %q, which takes too long: use ecdsa or ed25519", kind)
		}
		return inner(kind), nil
	}
}

// noKey replaces a function that makes an RSA key.
func noKey(name string) func(...any) (any, error) {
	return func(...any) (any, error) {
		return nil, fmt.Errorf("cannot make an RSA key, which takes too long: use %sWithKey with genPrivateKey "+
			"\"ecdsa\"", name)
	}
}

// dig wraps sprig's function, which accepts only maps of type map[string]any.
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
