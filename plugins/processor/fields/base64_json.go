package fields

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// fieldCodec replaces a value by another representation.
type fieldCodec struct {
	field
	do func(v any, budget int) (any, error) // budget: bytes of memory that it may allocate
}

type base64Settings struct {
	// Reference to the field.
	Field string `json:"field" validate:"required,exclusion=.Position"`
}

// Parameters implements sdk.Processor.
func (c *fieldCodec) Parameters() sdk.Parameters {
	return sdk.Described(base64Settings{}, descriptions)
}

// Configure implements sdk.Processor.
func (c *fieldCodec) Configure(_ context.Context, settings map[string]string) error {
	var s base64Settings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	if err := c.parse(s.Field); err != nil {
		return err
	}
	switch c.ref.Root() {
	case fieldref.Position, fieldref.Operation, fieldref.Whole, fieldref.Payload:
		return sdk.SettingError{Setting: "field", Message: fmt.Sprintf("%s cannot be encoded or decoded", c.ref)}
	case fieldref.Metadata:
		if !c.ref.IsNested() {
			return sdk.SettingError{Setting: "field", Message: "name a key of the metadata, such as .Metadata.key"}
		}
	}
	return nil
}

// Process implements sdk.Processor.
func (c *fieldCodec) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	budget := sdk.Budget(ctx)
	return b.EachUntil(ctx, func(r *record.Record) error {
		return c.change(r, func(v any) (any, error) {
			made, err := c.do(v, budget)
			if err == nil {
				err = b.TakeHere(record.ValueMemory(made))
			}
			return made, err
		})
	})
}

// jsonCodec is a fieldCodec for a key or payload.
type jsonCodec struct{ fieldCodec }

type jsonSettings struct {
	// Reference to the field, in the key or the payload.
	Field string `json:"field" validate:"required,exclusion=.Payload,regex=^\\.([Pp]ayload|[Kk]ey).*"`
}

// Parameters implements sdk.Processor.
func (c *jsonCodec) Parameters() sdk.Parameters { return sdk.Described(jsonSettings{}, descriptions) }

func base64Encode(v any, _ int) (any, error) {
	var b []byte
	switch v := v.(type) {
	case []byte:
		b = v
	case string:
		b = []byte(v)
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Duration:
		var err error
		if b, err = record.AppendText(nil, v); err != nil {
			return nil, err
		}
	default:
		return nil, unexpected(v)
	}
	return base64.StdEncoding.EncodeToString(b), nil
}

func base64Decode(v any, _ int) (any, error) {
	b, ok := bytesOf(v)
	if !ok {
		return nil, unexpected(v)
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(b)))
	n, err := base64.StdEncoding.Decode(out, b)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the value: %w", err)
	}
	return string(out[:n]), nil
}

func jsonDecode(v any, budget int) (any, error) {
	switch v.(type) {
	case map[string]any, []any:
		return v, nil
	}
	b, ok := bytesOf(v)
	if !ok {
		return nil, unexpected(v)
	}
	if len(b) == 0 {
		return nil, nil
	}
	out, err := jsonvalue.ParseWithin(b, budget)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the value as JSON: %w", err)
	}
	return out, nil
}

func jsonEncode(v any, _ int) (any, error) {
	b, err := record.AppendValue(nil, v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the value as JSON: %w", err)
	}
	return string(b), nil
}

// bytesOf returns v as bytes if it is bytes or text.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case string:
		return []byte(v), true
	}
	return nil, false
}

func unexpected(v any) error { return fmt.Errorf("unexpected data type %s", fieldref.Kind(v)) }
