package postgres

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/record"
)

// appendValue appends v as text for a column. v is not nil.
func appendValue(dst []byte, v any, c pg.Column) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return append(dst, v...), nil
	case []byte:
		if c.OID == pg.OIDBytea {
			return hex.AppendEncode(append(dst, `\x`...), v), nil
		}
		return append(dst, v...), nil
	case json.Number:
		return append(dst, v...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int8:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int16:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint, uint8, uint16, uint32, uint64:
		return fmt.Append(dst, v), nil
	case float32, float64:
		return record.AppendText(dst, v)
	case time.Time:
		return appendTime(dst, v.UTC()), nil
	case time.Duration:
		return fmt.Appendf(dst, "%d microseconds", v.Microseconds()), nil
	case []any:
		if strings.HasSuffix(c.TypeName, "[]") {
			return appendArray(dst, v, c)
		}
	}
	text, err := record.AppendValue(nil, v)
	if err != nil {
		return nil, sqlsink.Refuse("cannot write a %T to column %s: %w", v, c.Name, err)
	}
	return append(dst, text...), nil
}

// appendTime appends a time in UTC. Years before 1 have PostgreSQL's BC form, which has no year 0.
func appendTime(dst []byte, t time.Time) []byte {
	if y := t.Year(); y < 1 {
		dst = fmt.Appendf(dst, "%04d", 1-y)
		return t.AppendFormat(dst, "-01-02 15:04:05.999999Z07:00 BC")
	}
	return t.AppendFormat(dst, "2006-01-02 15:04:05.999999Z07:00")
}

// appendArray appends an array literal.
func appendArray(dst []byte, all []any, c pg.Column) (_ []byte, err error) {
	element := pg.Column{Name: c.Name, TypeName: strings.TrimSuffix(c.TypeName, "[]")}
	dst = append(dst, '{')
	for i, v := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		if nested, ok := v.([]any); ok {
			if dst, err = appendArray(dst, nested, c); err != nil {
				return nil, err
			}
			continue
		}
		if dst, err = appendElement(dst, v, element); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendElement appends an element of an array literal.
func appendElement(dst []byte, v any, c pg.Column) ([]byte, error) {
	if v == nil {
		return append(dst, "NULL"...), nil
	}
	text, err := appendValue(nil, v, c)
	if err != nil {
		return nil, err
	}
	dst = append(dst, '"')
	for _, b := range text {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return append(dst, '"'), nil
}

// arrayOf returns an array literal with the values of a column as texts.
func arrayOf(group []*change, c pg.Column, name string) ([]byte, error) {
	all := []byte{'{'}
	for i, one := range group {
		if i > 0 {
			all = append(all, ',')
		}
		var err error
		if all, err = appendElement(all, one.Values[name], c); err != nil {
			return nil, err
		}
	}
	return append(all, '}'), nil
}

// appendCopy appends a value in the text format of COPY.
func appendCopy(dst []byte, v any, c pg.Column) ([]byte, error) {
	if v == nil {
		return append(dst, `\N`...), nil
	}
	at := len(dst)
	dst, err := appendValue(dst, v, c)
	if err != nil {
		return nil, err
	}
	for i := at; i < len(dst); i++ {
		switch dst[i] {
		case '\\', '\t', '\n', '\r':
			return escapeCopy(dst[:at], append([]byte(nil), dst[at:]...)), nil
		}
	}
	return dst, nil
}

func escapeCopy(dst, text []byte) []byte {
	for _, b := range text {
		switch b {
		case '\\':
			dst = append(dst, `\\`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, b)
		}
	}
	return dst
}
