package fields

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// unwrappers returns the processors that take a record out of the envelope of another system.
func unwrappers() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{
		plugin("unwrap.debezium", "Unwraps a record of Debezium.", "The field holds the envelope, structured or as "+
			"JSON. Operation, before and after come from the payload; the members of the source go to the metadata, "+
			"the others too, below debezium. A tombstone, which holds nothing, is left as it is. An update leaves "+
			"out the fields with the placeholder `__debezium_unavailable_value`, whose values Debezium did not get; "+
			"a new row with one is refused.",
			func() sdk.Processor {
				return &unwrapper{parameters: sdk.Described(payloadSettings{}, descriptions), unwrap: debezium}
			}),
		plugin("unwrap.kafkaconnect", "Unwraps a record of Kafka Connect.", "The field holds the envelope, "+
			"structured or as JSON. The object in its payload becomes the payload of a record that was created. "+
			"Fields with Debezium's placeholder `__debezium_unavailable_value` are left out, and the record is then "+
			"an update.",
			func() sdk.Processor {
				return &unwrapper{parameters: sdk.Described(payloadSettings{}, descriptions), unwrap: kafkaConnect}
			}),
		plugin("unwrap.opencdc", "Unwraps a record in the form of OpenCDC.",
			"The field holds the record, structured or as JSON. It takes the place of the one around it, whose "+
				"position stays.",
			func() sdk.Processor {
				return &unwrapper{parameters: sdk.Described(anySettings{}, descriptions), unwrap: openCDC}
			}),
	}
}

// unwrapper replaces a record by the content of a field.
type unwrapper struct {
	sdk.ProcessorBase
	parameters sdk.Parameters
	ref        *fieldref.Ref
	unwrap     func(r *record.Record, ref *fieldref.Ref, budget int) error // budget in bytes of memory
}

type payloadSettings struct {
	// Reference to the field that holds the envelope.
	Field string `json:"field" default:".Payload.After" validate:"regex=^\\.[Pp]ayload"`
}

type anySettings struct {
	// Reference to the field that holds the record.
	Field string `json:"field" default:".Payload.After"`
}

// Parameters implements sdk.Processor.
func (u *unwrapper) Parameters() sdk.Parameters { return u.parameters }

// SchemaParts implements sdk.SchemaUser: the key is unwrapped, too.
func (u *unwrapper) SchemaParts() schema.Parts { return schema.Parts{Key: true, Payload: true} }

// Configure implements sdk.Processor.
func (u *unwrapper) Configure(_ context.Context, settings map[string]string) error {
	text := u.parameters.ApplyDefaults(settings)["field"]
	ref, err := fieldref.Parse(text)
	if err == nil {
		switch ref.Root() {
		case fieldref.Key, fieldref.Before, fieldref.After, fieldref.Metadata:
		default:
			err = fmt.Errorf("%s cannot hold a record", ref)
		}
	}
	if err != nil {
		return sdk.SettingError{Setting: "field", Message: err.Error()}
	}
	u.ref = ref
	return nil
}

// Process implements sdk.Processor.
func (u *unwrapper) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	budget := sdk.Budget(ctx)
	return b.EachUntil(ctx, func(r *record.Record) error {
		if err := u.unwrap(r, u.ref, budget); err != nil {
			return err
		}
		return b.TakeHere(r.Memory())
	})
}

// objectOf returns the object in v, which may be JSON text that takes at most budget bytes of memory. nil is not an
// object.
func objectOf(v any, budget int) (map[string]any, error) {
	switch text := v.(type) {
	case map[string]any:
		return text, nil
	case string:
		return parseObject([]byte(text), budget)
	case []byte:
		return parseObject(text, budget)
	}
	return nil, fmt.Errorf("unexpected data type %s", fieldref.Kind(v))
}

func parseObject(b []byte, budget int) (map[string]any, error) {
	v, err := jsonvalue.ParseWithin(b, budget)
	if err != nil {
		return nil, fmt.Errorf("cannot read the data as JSON: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the data is of type %s, not an object", fieldref.Kind(v))
	}
	return m, nil
}

// unwrapKey replaces a key that is an envelope by its payload. Other keys stay unchanged.
func unwrapKey(r *record.Record, budget int) {
	m, err := objectOf(fieldref.Value(r.Key), budget)
	if err != nil {
		return
	}
	v, ok := m["payload"]
	if !ok {
		return
	}
	switch v := v.(type) {
	case nil:
		r.Key = record.Data{}
	case map[string]any:
		r.Key = record.Structured(v)
	default:
		r.Key = record.Raw([]byte(jsonText(v)))
	}
	forget(r, record.KeyKeySchemaSubject, record.KeyKeySchemaVersion)
}

// forget removes the metadata that describes replaced data.
func forget(r *record.Record, keys ...string) {
	for _, k := range keys {
		if r.Metadata.Get(k) != "" {
			r.Metadata.Delete(k)
		}
	}
}

// flatten puts the values of m into the metadata, each with its path of member names joined by dots as the key. It
// omits nulls. The caller must sort the metadata afterwards.
func flatten(md *record.Metadata, prefix string, m map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch v := m[k].(type) {
		case nil:
		case map[string]any:
			flatten(md, prefix+k+".", v)
		default:
			md.Add(prefix+k, jsonText(v))
		}
	}
}

// jsonText returns the text of a value read from JSON. Every such value has one.
func jsonText(v any) string {
	text, _ := record.Text(v)
	return text
}
