package fields

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const avroHeader = 5 // a zero byte and the schema id

// maxCodecs bounds the schemas that an instance caches.
const maxCodecs = 1024

// avroDecode decodes a field with the schema whose id is in the header of the data.
type avroDecode struct {
	field
	codecs map[uint32]*schema.Codec
}

type avroDecodeSettings struct {
	// Reference to the field.
	Field string `json:"field" default:".Payload.After"`
}

// Parameters implements sdk.Processor.
func (d *avroDecode) Parameters() sdk.Parameters {
	return sdk.Described(avroDecodeSettings{}, descriptions)
}

// Configure implements sdk.Processor.
func (d *avroDecode) Configure(_ context.Context, settings map[string]string) error {
	var s avroDecodeSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	if err := d.parse(s.Field); err != nil {
		return err
	}
	return checkStructured(d.ref)
}

// checkStructured refuses references to fields that cannot hold an object.
func checkStructured(f *fieldref.Ref) error {
	switch f.Root() {
	case fieldref.Key, fieldref.Before, fieldref.After:
		return nil
	}
	return sdk.SettingError{Setting: "field",
		Message: fmt.Sprintf(
			"%s cannot hold structured data: want something in .Key, .Payload.Before or .Payload.After", f)}
}

// Open implements sdk.Processor.
func (d *avroDecode) Open(ctx context.Context) error {
	_, err := registry(ctx)
	return err
}

func registry(ctx context.Context) (schema.IDRegistry, error) {
	r, ok := sdk.EnvFrom(ctx).Schemas.(schema.IDRegistry)
	if !ok {
		return nil, errors.New("there is no schema registry")
	}
	return r, nil
}

// Process implements sdk.Processor.
func (d *avroDecode) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	var broken error
	err := b.EachUntil(ctx, func(r *record.Record) error {
		v, _, err := d.ref.Get(r)
		if err != nil {
			return err
		}
		data, ok := bytesOf(v)
		if !ok {
			return fmt.Errorf("%s: %w", d.ref, unexpected(v))
		}
		if len(data) < avroHeader || data[0] != 0 {
			return fmt.Errorf("cannot decode %s: the data does not begin with a zero byte and the id of a schema",
				d.ref)
		}
		codec, err := d.codec(ctx, binary.BigEndian.Uint32(data[1:]))
		if err != nil {
			if isUnreachable(err) {
				broken = err
			}
			return fmt.Errorf("cannot decode %s: %w", d.ref, err)
		}
		m, n, err := codec.DecodeWithin(data[avroHeader:], sdk.Budget(ctx))
		if err != nil {
			return fmt.Errorf("cannot decode %s: %w", d.ref, err)
		}
		if err := b.TakeHere(n); err != nil {
			return err
		}
		return d.ref.Set(r, m)
	})
	if err != nil {
		return err
	}
	return broken
}

// isUnreachable reports whether the registry error err is unrelated to the schema: other records would fail for the
// same reason, and this record will succeed once the registry can be reached.
func isUnreachable(err error) bool {
	for _, answer := range []error{schema.ErrInvalidSchema, schema.ErrSubjectNotFound, schema.ErrVersionNotFound} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// codec returns the codec of the schema with this id.
func (d *avroDecode) codec(ctx context.Context, id uint32) (*schema.Codec, error) {
	if codec := d.codecs[id]; codec != nil {
		return codec, nil
	}
	r, err := registry(ctx)
	if err != nil {
		return nil, err
	}
	s, err := r.ByID(ctx, int(id))
	if err != nil {
		err = fmt.Errorf("cannot get schema %d: %w", id, err)
		if errors.Is(err, schema.ErrSubjectNotFound) {
			err = fmt.Errorf("%w: the schema registry has no schema with this id; set schema-registry to the one at "+
				"which the "+
				"producer registered it", err)
		}
		return nil, err
	}
	codec, err := schema.Parse(s.Text)
	if err != nil {
		return nil, fmt.Errorf("cannot use schema %d: %w", id, err)
	}
	if d.codecs == nil || len(d.codecs) >= maxCodecs {
		d.codecs = map[uint32]*schema.Codec{}
	}
	d.codecs[id] = codec
	return codec, nil
}

// avroEncode encodes a field with a registered schema, or with a schema inferred for its shape.
type avroEncode struct {
	field
	settings avroEncodeSettings
	known    []encoding // most recently used first; one entry with a registered schema
}

// encoding is a schema and the shape of the data it encodes. A nil shape stands for any.
type encoding struct {
	shape *schema.Shape
	id    int
	codec *schema.Codec
}

type avroEncodeSettings struct {
	// Reference to the field.
	Field string `json:"field" default:".Payload.After"`
	// Origin of the schema. preRegistered: a registered one. autoRegister: one inferred from the data and registered.
	Strategy string `json:"schema.strategy" validate:"required,inclusion=preRegistered|autoRegister"`
	// Subject of the registered schema.
	Subject string `json:"schema.preRegistered.subject"`
	// Version of the registered schema.
	Version *int `json:"schema.preRegistered.version" validate:"gt=0"`
	// Subject under which inferred schemas are registered.
	Auto string `json:"schema.autoRegister.subject"`
}

// Parameters implements sdk.Processor.
func (e *avroEncode) Parameters() sdk.Parameters {
	return sdk.Described(avroEncodeSettings{}, descriptions)
}

// Configure implements sdk.Processor.
func (e *avroEncode) Configure(_ context.Context, settings map[string]string) error {
	s := &e.settings
	if err := sdk.Decode(settings, s); err != nil {
		return err
	}
	if err := e.parse(s.Field); err != nil {
		return err
	}
	switch {
	case s.Strategy == "autoRegister" && s.Auto == "":
		return sdk.SettingError{Setting: "schema.autoRegister.subject",
			Message: "subject required for schema strategy 'autoRegister'"}
	case s.Strategy == "preRegistered" && s.Subject == "":
		return sdk.SettingError{Setting: "schema.preRegistered.subject",
			Message: "subject required for schema strategy 'preRegistered'"}
	case s.Strategy == "preRegistered" && s.Version == nil:
		return sdk.SettingError{Setting: "schema.preRegistered.version",
			Message: "version needs to be positive: it is not set"}
	}
	return checkStructured(e.ref)
}

// Open implements sdk.Processor.
func (e *avroEncode) Open(ctx context.Context) error {
	r, err := registry(ctx)
	if err != nil || e.settings.Strategy == "autoRegister" {
		return err
	}
	s, err := r.Get(ctx, e.settings.Subject, *e.settings.Version)
	if err != nil {
		return fmt.Errorf("cannot get version %d of schema %q: %w", *e.settings.Version, e.settings.Subject, err)
	}
	codec, err := schema.Parse(s.Text)
	if err != nil {
		return err
	}
	e.known = []encoding{{nil, s.ID, codec}}
	return nil
}

// Process implements sdk.Processor.
func (e *avroEncode) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	var broken error
	err := b.EachUntil(ctx, func(r *record.Record) error {
		m, err := e.object(r, sdk.Budget(ctx))
		if err != nil {
			return err
		}
		k, err := e.encoding(ctx, m)
		if err != nil {
			if isUnreachable(err) {
				broken = err
			}
			return err
		}
		out := binary.BigEndian.AppendUint32(make([]byte, 1, 64), uint32(k.id))
		if out, err = k.codec.Append(out, m); err != nil {
			return fmt.Errorf("cannot encode %s: %w", e.ref, err)
		}
		return e.ref.Set(r, out)
	})
	if err != nil {
		return err
	}
	return broken
}

// object returns the object in the field, which may be JSON text.
func (e *avroEncode) object(r *record.Record, budget int) (map[string]any, error) {
	v, _, err := e.ref.Get(r)
	if err != nil {
		return nil, err
	}
	if m, ok := v.(map[string]any); ok {
		return m, nil
	}
	b, ok := bytesOf(v)
	if !ok {
		return nil, fmt.Errorf("%s: %w", e.ref, unexpected(v))
	}
	if len(b) == 0 {
		return map[string]any{}, nil
	}
	if v, err = jsonvalue.ParseWithin(b, budget); err != nil {
		return nil, fmt.Errorf("%s holds no JSON object: %w", e.ref, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s holds no JSON object: %w", e.ref, unexpected(v))
	}
	return m, nil
}

// maxShapes bounds the shapes of data that are cached.
const maxShapes = 64

// encoding returns the schema for m. It infers and registers a schema once per shape.
func (e *avroEncode) encoding(ctx context.Context, m map[string]any) (encoding, error) {
	for i, k := range e.known {
		if k.shape == nil || k.shape.Fits(m) {
			copy(e.known[1:], e.known[:i])
			e.known[0] = k
			return k, nil
		}
	}
	shape, err := schema.ShapeOf(m)
	if err != nil {
		return encoding{}, fmt.Errorf("%w: cannot infer a schema for %s: %w", schema.ErrInvalidSchema, e.ref, err)
	}
	r, err := registry(ctx)
	if err != nil {
		return encoding{}, err
	}
	s, err := r.Create(ctx, e.settings.Auto, schema.TypeAvro, shape.Avro())
	if err != nil {
		return encoding{}, fmt.Errorf("cannot register the schema of %s: %w", e.ref, err)
	}
	codec, err := schema.Parse(s.Text)
	if err != nil {
		return encoding{}, err
	}
	e.known = append([]encoding{{shape, s.ID, codec}}, e.known[:min(len(e.known), maxShapes-1)]...)
	return e.known[0], nil
}
