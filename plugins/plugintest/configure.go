package plugintest

import (
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// unknownSetting is a setting that no connector has.
const unknownSetting = "plugintest.unknown"

// wrongTypes are invalid values of each type.
var wrongTypes = map[sdk.ParameterType]string{
	sdk.TypeInt: "one", sdk.TypeFloat: "half", sdk.TypeBool: "perhaps", sdk.TypeDuration: "later",
}

// checkSourceSettings checks that a source refuses wrong settings.
func checkSourceSettings(c *checker) {
	s, err := c.host.Specification(c.ctx)
	c.must(err, "cannot get the specification")
	c.wrongSettings(s.Source, c.host.Target.Source(c, 1), func() connector.Connector { return c.source() })
}

// checkDestinationSettings does the same for a destination.
func checkDestinationSettings(c *checker) {
	s, err := c.host.Specification(c.ctx)
	c.must(err, "cannot get the specification")
	c.wrongSettings(s.Destination, c.host.Target.Destination(c), func() connector.Connector { return c.destination() })
}

func (c *checker) wrongSettings(params sdk.Parameters, good map[string]string, start func() connector.Connector) {
	p := start()
	c.must(p.Configure(c.ctx, good), "Configure with good settings")
	c.teardown(p, "Configure with good settings")
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if required(params[name]) && !strings.Contains(name, "*") {
			c.refused(start, good, name, "")
		}
		if value, ok := wrongTypes[params[name].Type]; ok {
			c.refused(start, good, concrete(name), value)
		}
	}
	c.refused(start, good, unknownSetting, "x")
}

// refused checks that Configure names the setting when it has this value and all others are valid, and that the
// connector still ends cleanly.
func (c *checker) refused(start func() connector.Connector, good map[string]string, name, value string) {
	c.Helper()
	settings := maps.Clone(good)
	settings[name] = value
	if value == "" {
		delete(settings, name)
	}
	p := start()
	switch err := p.Configure(c.ctx, settings); {
	case err == nil:
		c.Errorf("Configure takes %s = %q", name, value)
	case !strings.Contains(err.Error(), name):
		c.Errorf("Configure refuses %s = %q without naming it: %v", name, value, err)
	}
	c.teardown(p, "Configure with %s = %q", name, value)
}

func required(p sdk.Parameter) bool {
	return p.Default == "" && slices.Contains(p.Validations, sdk.Validation{Type: sdk.ValidationRequired})
}

// concrete returns a name that matches a pattern.
func concrete(pattern string) string { return strings.ReplaceAll(pattern, "*", "plugintest") }
