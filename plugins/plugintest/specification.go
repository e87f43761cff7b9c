package plugintest

import (
	"maps"
	"regexp"
	"slices"

	"golang.org/x/mod/semver"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// checkSpecification checks the specification of the connector.
func checkSpecification(c *checker) {
	s, err := c.host.Specification(c.ctx)
	c.must(err, "cannot get the specification")
	if !nameForm.MatchString(s.Name) {
		c.Errorf("name %q: want letters, digits, '-', '_' and '.'", s.Name)
	}
	if !semver.IsValid(s.Version) {
		c.Errorf("version %q: want a semantic version with a leading v", s.Version)
	}
	if s.Summary == "" || s.Author == "" {
		c.Errorf("summary %q and author %q: want both", s.Summary, s.Author)
	}
	if c.host.Target.Source != nil {
		c.parameters("source", s.Source)
	}
	if c.host.Target.Destination != nil {
		c.parameters("destination", s.Destination)
	}
}

func (c *checker) parameters(kind string, params sdk.Parameters) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		p := params[name]
		if p.Description == "" {
			c.Errorf("%s parameter %q has no description", kind, name)
		}
		if p.Type < sdk.TypeString || p.Type > sdk.TypeDuration {
			c.Errorf("%s parameter %q has the unknown type %d", kind, name, p.Type)
		}
		for _, v := range p.Validations {
			c.validation(kind, name, v)
		}
		if p.Default == "" {
			continue
		}
		name = concrete(name)
		alone := sdk.Parameters{name: p}
		for _, err := range alone.Check(map[string]string{name: p.Default}) {
			c.Errorf("the default of %s parameter %v", kind, err)
		}
	}
}

func (c *checker) validation(kind, name string, v sdk.Validation) {
	switch v.Type {
	case sdk.ValidationRequired, sdk.ValidationInclusion, sdk.ValidationExclusion:
	case sdk.ValidationGreaterThan, sdk.ValidationLessThan:
		number := sdk.Parameters{"x": {Type: sdk.TypeFloat}}
		if len(number.Check(map[string]string{"x": v.Value})) > 0 || v.Value == "" {
			c.Errorf("%s parameter %q is compared with %q: want a number", kind, name, v.Value)
		}
	case sdk.ValidationRegex:
		if _, err := regexp.Compile(v.Value); err != nil {
			c.Errorf("%s parameter %q: %v", kind, name, err)
		}
	default:
		c.Errorf("%s parameter %q has the unknown validation %d", kind, name, v.Type)
	}
}
