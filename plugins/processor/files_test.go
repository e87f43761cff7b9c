//go:build unix

package processor_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// No setting of any processor reaches outside the allowed paths, in any spelling.
func TestNoSettingLeadsOutside(t *testing.T) {
	place, tried := builtintest.NewPlace(t, true), 0
	names, addresses := place.Spellings()
	base := map[string]string{"field": ".Payload.After", "fields": ".Payload.After.x", "url": "http://127.0.0.1:1",
		"request.url": "http://127.0.0.1:1", "mapping": ".Payload.After.x: y", "key": ".Payload.After.x",
		"api_key": "k",
		"apiKey":  "k", "model": "m", "prompt": "p", "script": "function process(r) { return r }", "condition": "true"}
	for _, plugin := range processors.All() {
		parameters := plugin.New().Parameters()
		fewest := maps.Clone(base)
		maps.DeleteFunc(fewest, func(name, _ string) bool { _, known := parameters[name]; return !known })
		for name, p := range parameters {
			if p.Type != sdk.TypeString && p.Type != sdk.TypeFile {
				continue
			}
			values := slices.Clone(names)
			if strings.Contains(strings.ToLower(name), "url") {
				values = append(values, addresses...)
			}
			for _, value := range values {
				settings := maps.Clone(fewest)
				if name == "script.path" {
					delete(settings, "script")
				}
				settings[strings.ReplaceAll(name, "*", "x")] = value
				ctx, cancel := context.WithTimeout(place.Context, 10*time.Millisecond)
				if p := plugin.New(); p.Configure(ctx, parameters.ApplyDefaults(settings)) == nil {
					_ = p.Open(ctx)
					_ = p.Teardown(context.WithoutCancel(ctx))
				}
				cancel()
				tried++
				if touched := place.Touched(); touched != "" {
					t.Errorf("%s: setting %s with %q %s outside of the allowed paths", plugin.Name, name, value,
						touched)
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d settings were tried", tried)
	}
}
