package fields

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// convert converts a field to another type.
type convert struct {
	references
	read func(text string) (any, error)
	bits bool // booleans become 1 and 0
}

type convertSettings struct {
	// Reference to the field, in the key or the payload.
	Field string `json:"field" validate:"required,regex=^\\.([Pp]ayload|[Kk]ey).*"`
	// Type to convert to.
	Type string `json:"type" validate:"required,inclusion=string|int|float|bool|time"`
}

// Parameters implements sdk.Processor.
func (c *convert) Parameters() sdk.Parameters { return sdk.Described(convertSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (c *convert) Configure(_ context.Context, settings map[string]string) error {
	var s convertSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	if err := c.parse("field", s.Field); err != nil {
		return err
	}
	ref := c.refs[0]
	if len(c.refs) > 1 || ref.Root() == fieldref.Payload {
		return sdk.SettingError{Setting: "field", Message: "want one field of the key or the payload"}
	}
	if !ref.IsNested() && s.Type != "string" {
		return sdk.SettingError{Setting: "field", Message: fmt.Sprintf("%s cannot hold a %s; name a field inside it",
			ref, s.Type)}
	}
	c.read, c.bits = readers[s.Type], s.Type == "int" || s.Type == "float"
	return nil
}

var readers = map[string]func(string) (any, error){
	"string": func(s string) (any, error) { return s, nil },
	"int":    func(s string) (any, error) { return strconv.ParseInt(s, 10, 64) },
	"float":  func(s string) (any, error) { return strconv.ParseFloat(s, 64) },
	"bool":   func(s string) (any, error) { return strconv.ParseBool(s) },
	"time":   readTime,
}

func readTime(s string) (any, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(0, n).UTC(), nil
	}
	return time.Parse(time.RFC3339Nano, s)
}

// Process implements sdk.Processor.
func (c *convert) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	ref := c.refs[0]
	return b.EachUntil(ctx, func(r *record.Record) error {
		v, ok, err := ref.Get(r)
		if err != nil || !ok || v == nil {
			return err
		}
		text, err := textOf(v, c.bits)
		if err == nil {
			v, err = c.read(text)
		}
		if err != nil {
			return fmt.Errorf("cannot convert %s: %w", ref, err)
		}
		return ref.Set(r, v)
	})
}

// textOf returns the text of a scalar. With bits, booleans become 1 or 0.
func textOf(v any, bits bool) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case float32:
		return strconv.FormatFloat(float64(v), 'f', -1, 32), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		if bits && v {
			return "1", nil
		} else if bits {
			return "0", nil
		}
		return strconv.FormatBool(v), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case map[string]any, []any:
		b, err := record.AppendValue(nil, v)
		return string(b), err
	}
	return fmt.Sprint(v), nil
}
