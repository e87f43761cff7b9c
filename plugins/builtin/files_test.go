//go:build unix

package builtin_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/plugintest/outside"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// No setting of any connector leads to a file outside the allowed paths, in any spelling. Neither do the files that a
// client searches for in the home directory, or at a path from the environment.
func TestNoSettingLeadsOutside(t *testing.T) {
	for _, withVariables := range []bool{false, true} {
		t.Run(fmt.Sprintf("variables %t", withVariables), func(t *testing.T) {
			place, tried := outside.New(t, withVariables), 0
			every := *everySpelling || !withVariables
			for _, c := range builtin.Connectors(exec.Options{}) {
				if c.Name == "exec" { // runs commands if it may
					continue
				}
				if c.NewSource != nil {
					tried += tryAll(t, place, c.Name+" source", c.NewSource().Parameters(), every,
						func(ctx context.Context, settings map[string]string) {
							s := c.NewSource()
							if s.Configure(ctx, settings) == nil {
								_ = s.Open(ctx, nil)
							}
							_ = s.Teardown(context.WithoutCancel(ctx))
						})
				}
				if c.NewDestination != nil {
					tried += tryAll(t, place, c.Name+" destination", c.NewDestination().Parameters(), every,
						func(ctx context.Context, settings map[string]string) {
							d := c.NewDestination()
							if d.Configure(ctx, settings) == nil {
								_ = d.Open(ctx)
							}
							_ = d.Teardown(context.WithoutCancel(ctx))
						})
				}
			}
			if every && tried < 1000 {
				t.Errorf("only %d settings were tried", tried)
			}
		})
	}
}

var everySpelling = flag.Bool("every-spelling", false,
	"try each spelling of a path, also next to variables that name one")

// tryAll runs a connector with every value of every setting in addition to the minimal ones, or with one value of each
// kind, and returns the number of values.
func tryAll(t *testing.T, place *outside.Place, what string, parameters sdk.Parameters, every bool,
	run func(ctx context.Context, settings map[string]string)) (tried int) {
	names, addresses := place.Spellings()
	if !every {
		names, addresses = names[:1], addresses[:1]
	}
	base := maps.Clone(minimal[what])
	// Without access keys, the client searches for them.
	maps.DeleteFunc(base, func(name, _ string) bool { return strings.Contains(name, "ccessKey") })
	for name, p := range parameters {
		var values []string
		switch lower := strings.ToLower(name); {
		case p.Type != sdk.TypeString && p.Type != sdk.TypeFile:
			continue
		case strings.Contains(lower, "url") || strings.Contains(lower, "address") || strings.Contains(lower, "servers") ||
			strings.Contains(lower, "endpoint") || base[name] != "":
			values = append(names, addresses...)
		default:
			values = append(values, names...)
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
