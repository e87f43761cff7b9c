package parse

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/processor/settingfile"
	"github.com/conduit-agent/conduit/plugins/protobuf"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// descriptorSet has the settings that name the type of a message.
type descriptorSet struct {
	// File with the type of the message and all types that it uses, as protoc --include_imports
	// --descriptor_set_out=FILE writes it. It is read again when it changes.
	Path string `json:"descriptors" validate:"required"`
	// Full name of the type of the message, such as shop.v1.Order.
	Message string `json:"message" validate:"required"`

	file *settingfile.File[*protobuf.Type]
}

// maxDescriptors bounds the size of a file with descriptors.
const maxDescriptors = 16 << 20

func (d *descriptorSet) checkFile(ctx context.Context) error {
	return sdk.CheckPath(ctx, "descriptors", d.Path)
}

func (d *descriptorSet) openFile(ctx context.Context) (err error) {
	d.file, err = settingfile.Open(ctx, d.Path, "the descriptor set", d.read)
	return err
}

func (d *descriptorSet) read(ctx context.Context) (*protobuf.Type, error) {
	b, err := sdk.ReadSettingFile(ctx, "descriptors", d.Path, maxDescriptors)
	if err != nil {
		return nil, fmt.Errorf("cannot read the descriptor set: %w", err)
	}
	t, err := protobuf.Parse(b, d.Message)
	if err != nil {
		return nil, fmt.Errorf("cannot use the descriptor set %s: %w", d.Path, err)
	}
	return t, nil
}

// protobufDecode decodes a message of Protocol Buffers.
type protobufDecode struct {
	options
	descriptorSet
	// Names of members: lowerCamelCase, as in the JSON mapping (json), or as in the proto file (proto).
	Names string `json:"names" default:"json" validate:"inclusion=json|proto"`
	// Whether fields that are absent get their default, if the type cannot tell absence from the default.
	Defaults bool `json:"defaults" default:"false"`
	// Fate of fields that the type lacks: refuse makes them an error, drop leaves them out, and keep adds their bytes as
	// the member @unknown, which protobuf.encode writes.
	Unknown string `json:"unknown" default:"refuse" validate:"inclusion=refuse|drop|keep"`
}

func (p *protobufDecode) compile() (parseFunc, error) {
	return func(ctx context.Context, v any, m *memory) (any, error) {
		t := p.file.Content(ctx)
		b, ok := v.([]byte)
		if text, is := v.(string); is {
			b, ok = []byte(text), true
		}
		if !ok {
			return nil, fmt.Errorf("unexpected data type %s", fieldref.Kind(v))
		}
		d := protobuf.Decoder{ProtoNames: p.Names == "proto", Defaults: p.Defaults, Unknown: p.Unknown, Take: m.take}
		return d.Decode(t, b)
	}, nil
}

// protobufEncode encodes an object as a message of Protocol Buffers.
type protobufEncode struct {
	places
	descriptorSet
	// Fate of members that the type lacks: refuse makes them an error, and drop leaves them out.
	Unknown string `json:"unknown" default:"refuse" validate:"inclusion=refuse|drop"`
}

func (p *protobufEncode) all() *options { return &options{places: p.places} }

// fits reports an error if target cannot hold bytes.
func (p *protobufEncode) fits(target *fieldref.Ref) error {
	if target.Root() == fieldref.Metadata {
		return sdk.SettingError{Setting: "target", Message: "name a field of the key or the payload: metadata " +
			"cannot hold bytes"}
	}
	return nil
}

func (p *protobufEncode) compile() (parseFunc, error) {
	return func(ctx context.Context, v any, m *memory) (any, error) {
		t := p.file.Content(ctx)
		if b, ok := v.([]byte); ok {
			var err error
			if v, err = jsonvalue.ParseWithin(b, m.left); err != nil {
				return nil, err
			}
		}
		return protobuf.Encoder{DropUnknown: p.Unknown == "drop"}.Encode(t, v)
	}, nil
}
