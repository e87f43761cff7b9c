package processor

import (
	"errors"
	"maps"
	"strings"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// standardOptions are the settings common to all processors.
type standardOptions struct {
	// Whether a key that is encoded with a schema is decoded before the processor sees it.
	DecodeKey bool `json:"sdk.schema.decode.key.enabled" default:"true"`
	// Whether a payload that is encoded with a schema is decoded before the processor sees it.
	DecodePayload bool `json:"sdk.schema.decode.payload.enabled" default:"true"`
	// Whether the schema of the key follows when the processor changes the key's shape.
	EncodeKey bool `json:"sdk.schema.encode.key.enabled" default:"true"`
	// Whether the schema of the payload follows when the processor changes the payload's shape.
	EncodePayload bool `json:"sdk.schema.encode.payload.enabled" default:"true"`
}

const standardPrefix = "sdk.schema."

// Parameters returns all parameters of a processor: its own and the sdk.* ones.
func Parameters(plugin sdk.ProcessorPlugin) sdk.Parameters {
	all := sdk.Described(standardOptions{}, descriptions)
	for name, value := range plugin.Defaults {
		param := all[name]
		param.Default = value
		all[name] = param
	}
	maps.Copy(all, plugin.New().Parameters())
	return all
}

// splitSettings checks settings against the parameters of the plugin. It returns the sdk.schema.* settings and the
// processor's own settings, with their defaults.
func splitSettings(
	plugin sdk.ProcessorPlugin, settings map[string]string,
) (o standardOptions, own map[string]string, err error) {
	var params sdk.Parameters
	if err := contain(func() error { params = Parameters(plugin); return nil }); err != nil {
		return o, nil, err
	}
	var wrong []error
	for _, e := range params.Check(settings) {
		wrong = append(wrong, e)
	}
	if len(wrong) > 0 {
		return o, nil, errors.Join(wrong...)
	}
	own, standard := params.ApplyDefaults(settings), map[string]string{}
	maps.DeleteFunc(own, func(name, value string) bool {
		if strings.HasPrefix(name, standardPrefix) {
			standard[name] = value
			return true
		}
		return false
	})
	return o, own, errors.Join(sdk.Decode(standard, &o), nil)
}

// use sets the parts that are decoded for the processor, and the parts whose schema follows their shape.
func (s *stage) use(o standardOptions) {
	parts := schema.Parts{Key: true, Payload: true}
	if user, ok := s.workers[0].processor.(sdk.SchemaUser); ok {
		parts = user.SchemaParts()
	}
	s.decodes = schema.Parts{Key: parts.Key && o.DecodeKey, Payload: parts.Payload && o.DecodePayload}
	s.encodes = schema.Parts{Key: parts.Key && o.EncodeKey, Payload: parts.Payload && o.EncodePayload}
}
