package logging

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math"
	"strconv"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// jsonEncoder renders lines for machines: one JSON object with level, time, message
// and the attributes.
type jsonEncoder struct{}

func (jsonEncoder) begin(b []byte, r *slog.Record) []byte {
	b = append(b, `{"level":"`...)
	b = append(b, levelNames[rank(r.Level)].long...)
	b = append(b, '"')
	if !r.Time.IsZero() {
		b = append(b, `,"time":"`...)
		b = r.Time.AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
		b = append(b, '"')
	}
	b = append(b, `,"message":`...)
	return appendJSONString(b, r.Message)
}

func (jsonEncoder) attr(b []byte, group, key string, v slog.Value) []byte {
	b = append(b, ',')
	if group != "" {
		key = group + key
	}
	b = appendJSONString(b, key)
	b = append(b, ':')
	return appendJSONValue(b, v)
}

func (jsonEncoder) end(b []byte) []byte { return append(b, '}', '\n') }

func (jsonEncoder) recordFirst() bool { return false }

func appendJSONValue(b []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return appendJSONString(b, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool())
	case slog.KindFloat64:
		if f := v.Float64(); !math.IsInf(f, 0) && !math.IsNaN(f) {
			return strconv.AppendFloat(b, f, 'g', -1, 64)
		}
		return appendJSONString(b, v.String())
	case slog.KindTime:
		b = append(b, '"')
		b = v.Time().AppendFormat(b, "2006-01-02T15:04:05.999999999Z07:00")
		return append(b, '"')
	case slog.KindAny:
		return appendJSONAny(b, v.Any())
	default:
		return appendJSONString(b, v.String())
	}
}

func appendJSONAny(b []byte, v any) []byte {
	switch x := v.(type) {
	case json.RawMessage:
		return appendRaw(b, x)
	case json.Marshaler: // without package json, which would check and copy records
		if j, err := x.MarshalJSON(); err == nil {
			return appendRaw(b, j)
		}
	case error:
		return appendJSONString(b, x.Error())
	}
	j, err := json.Marshal(v)
	if err != nil {
		return appendJSONString(b, "cannot show value: "+err.Error())
	}
	return append(b, terminal.EscapeJSON(j)...)
}

func appendJSONString(b []byte, s string) []byte {
	if !needsEscape(s) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	j, _ := json.Marshal(s) // a string always has a JSON form
	return append(b, terminal.EscapeJSON(j)...)
}

func needsEscape(s string) bool {
	wide := false
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c == '"' || c == '\\' {
			return true
		}
		wide = wide || c >= 0x7f
	}
	return wide && !terminal.IsPrintable(s)
}

// hasControl reports whether b may contain a control or format character, that is any byte except visible ASCII. It
// tests eight bytes at a time, because all records pass through it.
func hasControl(b []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		below := (w - 0x20*ones) &^ w & tops // a byte below 0x20
		del := w ^ 0x7f*ones
		equal := (del - ones) &^ del & tops // a byte 0x7f
		if below|equal|w&tops != 0 {
			return true
		}
	}
	for _, c := range b {
		if c < ' ' || c >= 0x7f {
			return true
		}
	}
	return false
}
