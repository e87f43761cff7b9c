package fields

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// codecs returns the processors that encode and decode a field.
func codecs() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{
		plugin("avro.decode", "Decodes a field from Avro.",
			"The data begins with a zero byte and the schema id in four bytes, as in the schema registry of "+
				"Confluent. The schema is fetched once from the registry that `schema-registry` names, with the "+
				"types that it refers to in other subjects. A record is refused when the registry has no such "+
				"schema; when the registry cannot be reached, the pipeline is restarted. Decimals, UUIDs and "+
				"durations become text, such as 1234.50 and P1M2DT3.004S; timestamps and dates become times.",
			func() sdk.Processor { return &avroDecode{} }),
		plugin("avro.encode", "Encodes a field to Avro.",
			"The data begins with a zero byte and the schema id in four bytes. The schema is a registered one, or is "+
				"inferred from the data and registered, once for every shape of data.",
			func() sdk.Processor { return &avroEncode{} }),
		plugin("base64.decode", "Decodes a field from base64.",
			"The alphabet is the standard one, with padding. The result is text. A field that is not there is "+
				"left alone.",
			func() sdk.Processor { return &fieldCodec{do: base64Decode} }),
		plugin("base64.encode", "Encodes a field to base64.",
			"The alphabet is the standard one, with padding. Numbers and booleans are encoded as their text. A field "+
				"that is not there is left alone.",
			func() sdk.Processor { return &fieldCodec{do: base64Encode} }),
		plugin("json.decode", "Decodes a field from JSON.",
			"A structured value, and a missing field, is left alone; empty text becomes null. Numbers become floats, "+
				"and those that a float would change keep their digits: integers of 64 bits as such, others as the "+
				"text of the number.",
			func() sdk.Processor { return &jsonCodec{fieldCodec{do: jsonDecode}} }),
		plugin("json.encode", "Encodes a field to JSON.",
			"The text is compact and has its keys sorted. A missing field is ignored.",
			func() sdk.Processor { return &jsonCodec{fieldCodec{do: jsonEncode}} }),
	}
}

// field is embedded in processors that work on one field.
type field struct {
	sdk.ProcessorBase
	ref *fieldref.Ref
}

// SchemaParts implements sdk.SchemaUser.
func (f *field) SchemaParts() schema.Parts { return f.ref.Parts() }

// NeverFound implements sdk.FieldReader.
func (f *field) NeverFound() []string { return fieldref.NeverFound(f.ref) }

func (f *field) parse(text string) (err error) {
	if f.ref, err = fieldref.Parse(text); err != nil {
		return sdk.SettingError{Setting: "field", Message: err.Error()}
	}
	return nil
}

// change replaces the value of the field by the result of do. A field that is missing or null is unchanged.
func (f *field) change(r *record.Record, do func(v any) (any, error)) error {
	v, ok, err := f.ref.Get(r)
	if err != nil || !ok || v == nil {
		return err
	}
	out, err := do(v)
	if err != nil {
		return fmt.Errorf("%s: %w", f.ref, err)
	}
	return f.ref.Set(r, out)
}
