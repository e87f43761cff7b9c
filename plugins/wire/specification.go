package wire

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/protobuf/proto"
)

func specificationOf(s sdk.Specification) *connectorv2.Specification {
	return &connectorv2.Specification{
		Name: s.Name, Summary: s.Summary, Description: s.Description, Version: s.Version, Author: s.Author,
		SourceParams: parametersTo(s.Source), DestinationParams: parametersTo(s.Destination),
	}
}

// Limits of the specification of a plugin, which is stored and displayed.
const (
	maxSpecification = 1 << 20 // bytes
	maxParameters    = 10_000  // of a source or destination
)

// ParseSpecification parses the response to Specify in a version of the protocol.
func ParseSpecification(f Frame, version int) (s sdk.Specification, err error) {
	if len(f) > maxSpecification {
		return s, fmt.Errorf("the specification has %d bytes, more than the maximum of %d", len(f), maxSpecification)
	}
	if version == Version1 {
		var m connectorv1.Specifier_Specify_Response
		err = proto.Unmarshal(f, &m)
		s = specificationFromV1(&m)
	} else {
		var m connectorv2.Specifier_Specify_Response
		err = proto.Unmarshal(f, &m)
		s = specificationFrom(m.GetSpecification())
	}
	if n := max(len(s.Source), len(s.Destination)); err == nil && n > maxParameters {
		err = fmt.Errorf("the specification has %d parameters, more than the maximum of %d", n, maxParameters)
	}
	return s, err
}

// specificationFrom converts the form of version 2. Parameters are nil if the plugin names none, which suggests that it
// has no such side.
func specificationFrom(s *connectorv2.Specification) sdk.Specification {
	return sdk.Specification{
		Name: s.GetName(), Summary: s.GetSummary(), Description: s.GetDescription(),
		Version: s.GetVersion(), Author: s.GetAuthor(),
		Source: parametersFrom(s.GetSourceParams()), Destination: parametersFrom(s.GetDestinationParams()),
	}
}

func parametersTo(params sdk.Parameters) map[string]*commonv1.Parameter {
	out := make(map[string]*commonv1.Parameter, len(params))
	for name, p := range params {
		q := &commonv1.Parameter{Default: p.Default, Description: p.Description, Type: commonv1.Parameter_Type(p.Type)}
		for _, v := range p.Validations {
			q.Validations = append(q.Validations,
				&commonv1.Validation{Type: commonv1.Validation_Type(v.Type), Value: v.Value})
		}
		out[name] = q
	}
	return out
}

func parametersFrom(params map[string]*commonv1.Parameter) sdk.Parameters {
	if len(params) == 0 {
		return nil
	}
	out := make(sdk.Parameters, len(params))
	for name, p := range params {
		q := sdk.Parameter{Default: p.GetDefault(), Description: p.GetDescription(),
			Type: sdk.ParameterType(p.GetType())}
		for _, v := range p.GetValidations() {
			q.Validations = append(q.Validations,
				sdk.Validation{Type: sdk.ValidationType(v.GetType()), Value: v.GetValue()})
		}
		out[name] = q
	}
	return out
}

// specificationFromV1 converts the form of version 1, in which a parameter may be required without a validation for it.
func specificationFromV1(s *connectorv1.Specifier_Specify_Response) sdk.Specification {
	return sdk.Specification{
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
		q := sdk.Parameter{Default: p.GetDefault(), Description: p.GetDescription(),
			Type: sdk.ParameterType(p.GetType())}
		required := p.GetRequired()
		for _, v := range p.GetValidations() {
			q.Validations = append(q.Validations,
				sdk.Validation{Type: sdk.ValidationType(v.GetType()), Value: v.GetValue()})
			required = required && sdk.ValidationType(v.GetType()) != sdk.ValidationRequired
		}
		if required {
			q.Validations = append(q.Validations, sdk.Validation{Type: sdk.ValidationRequired})
		}
		out[name] = q
	}
	return out
}
