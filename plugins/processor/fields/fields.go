// Package fields has the processors that change the content of a record. They convert, exclude, include, mask, rename
// and set fields (field.*), decode and encode them (avro.*, base64.*, json.*), and take a record out of the envelope of
// another system (unwrap.*).
package fields

import (
	"slices"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	return slices.Concat(codecs(), editors(), unwrappers())
}

// editors returns the processors that change fields.
func editors() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{
		plugin("field.convert", "Converts a field to another type.",
			"The value becomes text and that is read as the type. Times are read from Unix nanoseconds and from RFC "+
				"3339. A field that is missing or null is ignored.",
			func() sdk.Processor { return &convert{} }),
		plugin("field.exclude", "Removes fields.",
			"A removed key, payload or metadata is left empty. A missing field is ignored.",
			func() sdk.Processor { return &exclude{} }),
		plugin("field.include", "Keeps only the fields that are listed.",
			"Everything else is removed from the key, from both sides of the payload and from the metadata, each "+
				"only when a field in it is listed. Metadata that begins with opencdc. or conduit. stays.",
			func() sdk.Processor { return &include{} }),
		plugin("field.mask", "Hides confidential values.",
			"Values are replaced by a text or by a pseudonym, or are cut. They are chosen by field, or by pattern: "+
				"then all texts below the fields are searched, and only what matches is hidden. Nothing makes the "+
				"value from the result.\n\n"+
				"Method hash is pseudonymisation: equal values have equal pseudonyms, also in other pipelines with "+
				"the same key, so that records can still be counted and joined. Values are compared as text, byte by "+
				"byte. Whoever has the key can find a value by trying all that are possible: give the key as a "+
				"reference such as ${MASK_KEY}, at least 32 random characters (openssl rand -hex 32), and keep it "+
				"for as long as pseudonyms must be equal. Another key makes other pseudonyms. Shortened to 16 "+
				"hexadecimal digits, two of a billion values have the same pseudonym with a probability of 1 in 37; "+
				"with 32 or more, that does not happen. With digits, pseudonyms are as short as the values: of values "+
				"with 4 digits, many have the same one, so that they cannot replace a unique key.\n\n"+
				"Method ip takes an address alone, in brackets, with a port, a zone or a length of prefix, and "+
				"leaves its network, the port and a shorter prefix. Method email takes an address without a name. "+
				"Both refuse other text, and hide the values of a list or an object one by one; in longer text, such "+
				"as X-Forwarded-For, they find addresses with patterns.\n\n"+
				"A record that a processor refuses is kept as it was, with its confidential values: as a dead letter, and "+
				"in the log if the dead-letter queue is the default one. Put field.mask first, and choose patterns, or "+
				"another method, for fields that may have other text.",
			func() sdk.Processor { return &mask{} }),
		plugin("field.rename", "Renames fields.",
			"A field keeps its place. One that is not there is left alone; a name that is taken is an error.",
			func() sdk.Processor { return &rename{} }),
		plugin("field.set", "Sets a field.",
			"The value is a template over the record. It is text unless a type is asked for. A template that reads a "+
				"field that is not there is an error.",
			func() sdk.Processor { return &set{} }),
	}
}

func plugin(name, summary, description string, instance func() sdk.Processor) sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name: name, Summary: summary, Description: description, Version: "v0.1.0", Author: "conduit",
		New: instance,
	}
}

// references are the fields that a processor works on.
type references struct {
	sdk.ProcessorBase
	refs []*fieldref.Ref
}

// SchemaParts implements sdk.SchemaUser.
func (f *references) SchemaParts() schema.Parts { return fieldref.PartsOf(f.refs...) }

// NeverFound implements sdk.FieldReader.
func (f *references) NeverFound() []string { return fieldref.NeverFound(f.refs...) }

// parse parses a comma-separated list of references to fields that can be changed.
func (f *references) parse(setting, text string) (err error) {
	if f.refs, err = fieldref.ParseList(text); err != nil {
		return sdk.SettingError{Setting: setting, Message: err.Error()}
	}
	for _, ref := range f.refs {
		switch ref.Root() {
		case fieldref.Position, fieldref.Operation, fieldref.Whole:
			return sdk.SettingError{Setting: setting, Message: ref.String() + " cannot be among the fields"}
		}
	}
	return nil
}
