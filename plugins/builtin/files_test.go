//go:build unix

package builtin_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// No setting of any connector leads to a file outside the allowed paths, in any spelling. Neither do the files that a
// client searches for in the home directory, or at a path from the environment.
func TestNoSettingLeadsOutside(t *testing.T) {
	for _, withVariables := range []bool{false, true} {
		t.Run(fmt.Sprintf("variables %t", withVariables), func(t *testing.T) {
			place, tried := builtintest.NewPlace(t, withVariables), 0
			step := 1
			switch {
			case *everySpelling:
			case withVariables: // the variables are tried with each setting
				step = 100
			default:
				step = 20
			}
			for _, c := range builtin.Connectors(exec.Options{}) {
				if c.Name == "exec" { // runs commands if it may
					continue
				}
				if c.NewSource != nil {
					tried += tryAll(t, place, c.Name+" source", c.NewSource().Parameters(), step,
						func(ctx context.Context, settings map[string]string) {
							s := c.NewSource()
							if s.Configure(ctx, settings) == nil {
								_ = s.Open(ctx, nil)
							}
							_ = s.Teardown(context.WithoutCancel(ctx))
						})
				}
				if c.NewDestination != nil {
					tried += tryAll(t, place, c.Name+" destination", c.NewDestination().Parameters(), step,
						func(ctx context.Context, settings map[string]string) {
							d := c.NewDestination()
							if d.Configure(ctx, settings) == nil {
								_ = d.Open(ctx)
							}
							_ = d.Teardown(context.WithoutCancel(ctx))
						})
				}
			}
			if tried < 8000/step {
				t.Errorf("only %d spellings were tried", tried)
			}
		})
	}
}

var everySpelling = flag.Bool("every-spelling", false, "try each setting with each spelling of a path")

// tryAll runs a connector with every step-th spelling of a path as each setting, in addition to the minimal
// settings, and returns the number of values that it tried.
func tryAll(t *testing.T, place *builtintest.Place, what string, parameters sdk.Parameters, step int,
	run func(ctx context.Context, settings map[string]string)) (tried int) {
	names, addresses := place.Spellings()
	base := maps.Clone(minimal[what])
	// Without access keys, the client searches for them.
	maps.DeleteFunc(base, func(name, _ string) bool { return strings.Contains(name, "ccessKey") })
	for i, name := range slices.Sorted(maps.Keys(parameters)) {
		p := parameters[name]
		var values []string
		switch lower := strings.ToLower(name); {
		case p.Type != sdk.TypeString && p.Type != sdk.TypeFile:
			continue
		case strings.Contains(lower, "url") || strings.Contains(lower, "address") ||
			strings.Contains(lower, "servers") ||
			strings.Contains(lower, "endpoint") || base[name] != "":
			values = some(slices.Concat(names, addresses), i+len(what), step)
		default:
			values = some(names, i+len(what), step)
		}
		for _, v := range p.Validations {
			if v.Type == sdk.ValidationInclusion {
				values = strings.Split(v.Value, ",") // no other value is valid
			}
		}
		for _, value := range values {
			settings := maps.Clone(base)
			settings[strings.ReplaceAll(name, "*", "x")] = value
			// Some connectors wait for a server, or for the other side.
			ctx, cancel := context.WithTimeout(place.Context, 10*time.Millisecond)
			run(ctx, parameters.ApplyDefaults(settings))
			cancel()
			tried++
			if touched := place.Touched(); touched != "" {
				t.Errorf("%s: setting %s with %q %s outside of the allowed paths", what, name, value, touched)
			}
		}
	}
	return tried
}

// some returns the first spelling and every step-th of the others, which are different ones for each offset.
func some(spellings []string, offset, step int) []string {
	chosen := spellings[:1:1]
	for i := 1 + offset%step; i < len(spellings); i += step {
		chosen = append(chosen, spellings[i])
	}
	return chosen
}
