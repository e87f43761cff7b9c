// Package parse has the processors that parse a text into structured data (parse.*), and those for messages of Protocol
// Buffers, whose settings are alike (protobuf.*).
package parse

import (
	"context"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{CSV(), Grok(), KV(), ProtobufDecode(), ProtobufEncode(), Regex(), Syslog(), Time(),
		URL(), XML()}
}

// CSV returns the processor parse.csv.
func CSV() sdk.ProcessorPlugin {
	return plugin("parse.csv", "Parses a line of CSV.",
		"The text is one record; quoted columns may span lines. Each column becomes a member of an object.",
		func() format { return &csv{} })
}

// Grok returns the processor parse.grok.
func Grok() sdk.ProcessorPlugin {
	return plugin("parse.grok", "Parses a text by named patterns.",
		"Patterns are those of [go-grok](https://github.com/elastic/go-grok/tree/main/patterns), such as IP, NUMBER, "+
			"TIMESTAMP_ISO8601, HTTPD_COMBINEDLOG and SYSLOGLINE. Each name in the expression becomes a member of an "+
			"object, and one with dots a member of objects in it; one without text is left out. The time for a match "+
			"grows with the text, whatever the expression.",
		func() format { return &grok{} })
}

// KV returns the processor parse.kv.
func KV() sdk.ProcessorPlugin {
	return plugin("parse.kv", "Parses pairs of keys and values, such as logfmt.",
		"Each key becomes a member of an object. Blanks around keys and values do not belong to them, unless they "+
			"stand between quotes.",
		func() format { return &kv{} })
}

// ProtobufDecode returns the processor protobuf.decode.
func ProtobufDecode() sdk.ProcessorPlugin {
	return plugin("protobuf.decode", "Decodes a message of Protocol Buffers.",
		"The result is an object like the JSON mapping of the message, but integers and bytes keep their types, and a "+
			"Timestamp becomes a time. Enums are their names, a Duration is a text such as `1.5s`, a wrapper the value in "+
			"it, and an Any has the member `@type`. Fields that are absent are left out. A message may have 400 others in "+
			"each other.",
		func() format { return &protobufDecode{} })
}

// ProtobufEncode returns the processor protobuf.encode.
func ProtobufEncode() sdk.ProcessorPlugin {
	return plugin("protobuf.encode", "Encodes an object as a message of Protocol Buffers.",
		"It takes what protobuf.decode returns, and the forms of the JSON mapping: integers as text, bytes in base64, "+
			"times in RFC 3339. Names of members are those of the fields in the proto file or in lowerCamelCase. Null "+
			"stands for absence. The field may also hold JSON as bytes. Equal objects become equal messages.",
		func() format { return &protobufEncode{} })
}

// Regex returns the processor parse.regex.
func Regex() sdk.ProcessorPlugin {
	return plugin("parse.regex", "Parses a text by a regular expression.",
		"Each named group of the expression becomes a member of an object; one that takes no part in the match is "+
			"left out. The time for a match grows with the text, whatever the expression.",
		func() format { return &regex{} })
}

// Syslog returns the processor parse.syslog.
func Syslog() sdk.ProcessorPlugin {
	return plugin("parse.syslog", "Parses a message of syslog.",
		"The result is the object that the source `syslog` makes: message, facility, severity, priority, timestamp (in "+
			"RFC 3339), hostname, appname, procid, msgid and structured_data, as far as the message has them. Lines of "+
			"files, which have no priority, begin with their time.",
		func() format { return &syslogMessage{} })
}

// Time returns the processor parse.time.
func Time() sdk.ProcessorPlugin {
	return plugin("parse.time", "Parses a time.",
		"Formats are tried in their order. A time without a year is in the year in which it is at most a day in "+
			"the future. Empty text becomes null. Abbreviations of zones are those of `zone`, UTC and GMT. "+
			"Numbers and times are read like their text.",
		func() format { return &instant{} })
}

// URL returns the processor parse.url.
func URL() sdk.ProcessorPlugin {
	return plugin("parse.url", "Parses a URL.",
		"The result is an object with scheme, user, password, host, port (an integer), path, query and fragment, "+
			"as far as the URL has them. The path is unescaped. A URL may begin with its path.",
		func() format { return &address{} })
}

// XML returns the processor parse.xml.
func XML() sdk.ProcessorPlugin {
	return plugin("parse.xml", "Parses an XML document.",
		"An element becomes an object with its attributes and elements as members; one with text alone becomes the "+
			"text, and an empty one null. Elements of the same name become a list. Text beside attributes or elements is "+
			"the member `#text`, without spaces around it. Namespaces, comments and instructions are left out, "+
			"and entities of a document type are an error.",
		func() format { return &xmlDocument{} })
}

const common = " A field that is missing or null is left alone; one of another type is an error."

func plugin(name, summary, description string, settings func() format) sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name: name, Summary: summary, Description: description + common, Version: "v0.1.0", Author: "conduit",
		New: func() sdk.Processor { return &parser{format: settings()} },
	}
}

// format has the settings of a parser. Its implementations embed options.
type format interface {
	all() *options
	// compile checks the settings and returns the function that parses a value.
	compile() (parseFunc, error)
}

// parseFunc returns the result for the value of a field. It takes the memory of the result from m before it allocates.
type parseFunc func(ctx context.Context, v any, m *memory) (any, error)

// options are the settings common to all parsers.
type options struct {
	places
	// Whether the members of the result are added to the object in the target, where they replace members with the same
	// name. Otherwise the result replaces the whole target.
	Merge bool `json:"merge" default:"false"`
}

// places are the settings for the fields and the errors of all processors of this package.
type places struct {
	// Reference to the field that is read.
	Field string `json:"field" default:".Payload.After"`
	// Reference to the field for the result. Without it, the result replaces the value that was read.
	Target string `json:"target"`
	// Whether the field that was read is removed when the result is in another target.
	Remove bool `json:"remove" default:"false"`
	// What happens to a record with an error: refuse sends it to the dead-letter queue, keep passes it on
	// unchanged, and tag does so with the error in the metadata.
	OnError string `json:"on-error" default:"refuse" validate:"inclusion=refuse|keep|tag"`
	// Key of the metadata for the error of a tagged record.
	ErrorKey string `json:"error-key" default:"parse.error"`
}

func (o *options) all() *options { return o }

// parser is the processor of a format.
type parser struct {
	sdk.ProcessorBase
	format        format
	field, target *fieldref.Ref
	parse         parseFunc
	options       *options
}

// Parameters implements sdk.Processor.
func (p *parser) Parameters() sdk.Parameters { return sdk.Described(p.format, descriptions) }

// Configure implements sdk.Processor.
func (p *parser) Configure(ctx context.Context, settings map[string]string) (err error) {
	if err = sdk.Decode(settings, p.format); err != nil {
		return err
	}
	p.options = p.format.all()
	o := p.options
	if p.field, err = reference("field", o.Field); err != nil {
		return err
	}
	p.target = p.field
	if o.Target != "" {
		if p.target, err = reference("target", o.Target); err != nil {
			return err
		}
	}
	if p.parse, err = p.format.compile(); err != nil {
		return err
	}
	if f, ok := p.format.(fileFormat); ok {
		if err := f.checkFile(ctx); err != nil {
			return err
		}
	}
	if t, ok := p.format.(interface{ fits(*fieldref.Ref) error }); ok {
		return t.fits(p.target)
	}
	if p.target.Root() == fieldref.Metadata {
		return sdk.SettingError{Setting: "target", Message: "name a field of the key or the payload: metadata " +
			"cannot hold an object"}
	}
	return nil
}

// reference parses a reference to a field that can be read and set.
func reference(setting, text string) (*fieldref.Ref, error) {
	ref, err := fieldref.Parse(text)
	if err != nil {
		return nil, sdk.SettingError{Setting: setting, Message: err.Error()}
	}
	switch ref.Root() {
	case fieldref.Key, fieldref.Before, fieldref.After:
		return ref, nil
	case fieldref.Metadata:
		if ref.IsNested() {
			return ref, nil
		}
	}
	return nil, sdk.SettingError{Setting: setting, Message: fmt.Sprintf("%s cannot be parsed: name a field of the "+
		"key, the payload or the metadata", ref)}
}

// fileFormat is a format that needs a file.
type fileFormat interface {
	// checkFile reports an error if settings may not name the file.
	checkFile(ctx context.Context) error
	openFile(ctx context.Context) error
}

// Open implements sdk.Processor.
func (p *parser) Open(ctx context.Context) error {
	if f, ok := p.format.(fileFormat); ok {
		return f.openFile(ctx)
	}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *parser) SchemaParts() schema.Parts { return fieldref.PartsOf(p.field, p.target) }

// NeverFound implements sdk.FieldReader.
func (p *parser) NeverFound() []string { return fieldref.NeverFound(p.field) }

// Process implements sdk.Processor.
func (p *parser) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	o, limit := p.options, sdk.Budget(ctx)
	return b.EachUntil(ctx, func(r *record.Record) error {
		v, ok, err := p.field.Get(r)
		if err == nil && ok && v != nil {
			m := memory{limit, limit}
			var made any
			if made, err = p.parse(ctx, v, &m); err == nil {
				err = b.TakeHere(record.ValueMemory(made))
			}
			if err == nil {
				err = p.set(r, v, made)
			} else {
				err = fmt.Errorf("%s: %w", p.field, err)
			}
		}
		if err == nil || o.OnError == "refuse" {
			return err
		}
		if o.OnError == "tag" {
			r.Metadata.Set(o.ErrorKey, err.Error())
		}
		return nil
	})
}

// set puts the result into the target. When that fails, r is unchanged.
func (p *parser) set(r *record.Record, v, made any) error {
	o := p.options
	if p.target != p.field && o.Remove {
		if err := p.field.Delete(r); err != nil {
			return err
		}
	}
	err := p.put(r, made)
	if err != nil && p.target != p.field && o.Remove {
		_ = p.field.Set(r, v) // it could be deleted, so it can be set
	}
	return err
}

func (p *parser) put(r *record.Record, made any) error {
	members, ok := made.(map[string]any)
	if !ok || !p.options.Merge {
		return p.target.Set(r, made)
	}
	old, _, err := p.target.Get(r)
	if err != nil {
		return err
	}
	object, ok := old.(map[string]any)
	if !ok {
		return p.target.Set(r, made)
	}
	for name, v := range members {
		object[name] = v
	}
	return nil
}

// textOf returns the text of a field.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case []byte:
		return string(v), nil
	case string:
		return v, nil
	}
	return "", fmt.Errorf("unexpected data type %s", fieldref.Kind(v))
}

// memory limits the memory of the result of a parser, in bytes.
type memory struct{ left, limit int }

// memberBytes is the memory of a member of an object without its text.
const memberBytes = 96

func (m *memory) take(n int) error {
	if m.left -= n; m.left < 0 {
		return fmt.Errorf("%w: more than %d MiB, once it is parsed", jsonvalue.ErrMemory, m.limit>>20)
	}
	return nil
}

// add adds a member to an object. If the object has a member with this name already, duplicates selects the result:
// last, first, list or refuse.
func add(made map[string]any, name string, v any, duplicates string) error {
	old, twice := made[name]
	switch {
	case !twice || duplicates == "last":
		made[name] = v
	case duplicates == "refuse":
		return fmt.Errorf("%s comes twice", texttype.Quoted(name))
	case duplicates == "list":
		list, ok := old.([]any)
		if !ok {
			list = []any{old}
		}
		made[name] = append(list, v)
	}
	return nil
}

// separator returns the text that a setting names. Settings have no spaces at their ends, so these have names.
func separator(setting string) string {
	switch setting {
	case "tab":
		return "\t"
	case "space":
		return " "
	case "newline":
		return "\n"
	case "none":
		return ""
	}
	return setting
}

// trimNewline removes the line break at the end of text.
func trimNewline(text string) string {
	if rest, ok := strings.CutSuffix(text, "\n"); ok {
		return strings.TrimSuffix(rest, "\r")
	}
	return text
}
