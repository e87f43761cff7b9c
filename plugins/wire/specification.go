package wire

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/configv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// Specification is what a plugin says about itself.
type Specification struct {
	Name        string
	Summary     string
	Description string
	Version     string
	Author      string

	Source      sdk.Parameters // nil when it names none, which is a hint that it is no source
	Destination sdk.Parameters // nil when it names none, which is a hint that it is no destination
}

func specificationOf(c sdk.Connector) *connectorv2.Specification {
	s := &connectorv2.Specification{
		Name: c.Name, Summary: c.Summary, Description: c.Description, Version: c.Version, Author: c.Author,
	}
	if c.NewSource != nil {
		s.SourceParams = parametersTo(c.NewSource().Parameters())
	}
	if c.NewDestination != nil {
		s.DestinationParams = parametersTo(c.NewDestination().Parameters())
	}
	return s
}

func specificationFrom(s *connectorv2.Specification) Specification {
	return Specification{
		Name: s.GetName(), Summary: s.GetSummary(), Description: s.GetDescription(),
		Version: s.GetVersion(), Author: s.GetAuthor(),
		Source: parametersFrom(s.GetSourceParams()), Destination: parametersFrom(s.GetDestinationParams()),
	}
}

func parametersTo(params sdk.Parameters) map[string]*configv1.Parameter {
	out := make(map[string]*configv1.Parameter, len(params))
	for name, p := range params {
		q := &configv1.Parameter{Default: p.Default, Description: p.Description, Type: configv1.Parameter_Type(p.Type)}
		for _, v := range p.Validations {
			q.Validations = append(q.Validations, &configv1.Validation{Type: configv1.Validation_Type(v.Type), Value: v.Value})
		}
		out[name] = q
	}
	return out
}

func parametersFrom(params map[string]*configv1.Parameter) sdk.Parameters {
	if len(params) == 0 {
		return nil
	}
	out := make(sdk.Parameters, len(params))
	for name, p := range params {
		q := sdk.Parameter{Default: p.GetDefault(), Description: p.GetDescription(), Type: sdk.ParameterType(p.GetType())}
		for _, v := range p.GetValidations() {
			q.Validations = append(q.Validations, sdk.Validation{Type: sdk.ValidationType(v.GetType()), Value: v.GetValue()})
		}
		out[name] = q
	}
	return out
}

// specificationFromV1 reads the form of version 1, in which a parameter may be
// required without a validation that says so.
func specificationFromV1(s *connectorv1.Specifier_Specify_Response) Specification {
	return Specification{
		Name: s.GetName(), Summary: s.GetSummary(), Description: s.GetDescription(),
		Version: s.GetVersion(), Author: s.GetAuthor(),
		Source: parametersFromV1(s.GetSourceParams()), Destination: parametersFromV1(s.GetDestinationParams()),
	}
}

func parametersFromV1(params map[string]*connectorv1.Specifier_Parameter) sdk.Parameters {
	if len(params) == 0 {
		return nil
	}
	out := make(sdk.Parameters, len(params))
	for name, p := range params {
		q := sdk.Parameter{Default: p.GetDefault(), Description: p.GetDescription(), Type: sdk.ParameterType(p.GetType())}
		required := p.GetRequired()
		for _, v := range p.GetValidations() {
			q.Validations = append(q.Validations, sdk.Validation{Type: sdk.ValidationType(v.GetType()), Value: v.GetValue()})
			required = required && sdk.ValidationType(v.GetType()) != sdk.ValidationRequired
		}
		if required {
			q.Validations = append(q.Validations, sdk.Validation{Type: sdk.ValidationRequired})
		}
		out[name] = q
	}
	return out
}
