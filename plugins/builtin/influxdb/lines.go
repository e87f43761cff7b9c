package influxdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// lines is the dialect of the line protocol: a line for each point, such as
//
//	weather,room=1 celsius=20.5 1700000000000000000
type lines struct {
	measurement *template.Template
	tags        []tag
	only        map[string]bool // nil: all
	exclude     map[string]bool
	integers    bool
	series      *httpsink.Series
	message     string
	limit       template.TimeLimit
	buf, key    []byte
}

type tag struct {
	name  string
	value *template.Template
}

var _ httpsink.Dialect = (*lines)(nil)

// Characters that the line protocol escapes with a backslash.
const (
	inMeasurement = ", "
	inKey         = ",= " // of tags and fields, and in values of tags
)

func newLines(s *settings) (_ *lines, err error) {
	l := &lines{message: s.MessageField, integers: s.Integers == "integer", exclude: set(s.Exclude),
		series: httpsink.NewSeries(s.MaxSeries, "series", "series.max")}
	if len(s.Fields) > 0 {
		l.only = set(s.Fields)
	}
	if l.measurement, err = common.ParseTemplate("measurement", s.Measurement, checkMeasurement); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tags)) {
		if err := checkKey(name); err != nil {
			return nil, sdk.SettingError{Setting: "tags." + name, Message: err.Error()}
		}
		t, err := common.ParseTemplate("tags."+name, s.Tags[name], nil)
		if err != nil {
			return nil, err
		}
		l.tags = append(l.tags, tag{name, t})
	}
	return l, nil
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// checkName returns an error for a name of a measurement, a tag or a field that the line protocol cannot express.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == utf8.RuneError }):
		return fmt.Errorf("the name %.64q contains a control character or is not UTF-8 text", name)
	case strings.HasSuffix(name, `\`):
		return fmt.Errorf("the name %.64q must not end with a backslash", name)
	}
	return nil
}

// checkMeasurement returns an error for a name that no measurement can have.
func checkMeasurement(name string) error {
	if strings.HasPrefix(name, "#") {
		return fmt.Errorf("the name %.64q must not begin with #, which begins a comment", name)
	}
	return checkName(name)
}

// checkKey returns an error for a name that no tag or field can have.
func checkKey(name string) error {
	if name == "time" {
		return errors.New(`the name "time" is that of the point's own time: give the member another name with the ` +
			"processor field.rename, or list it in fields.exclude")
	}
	return checkName(name)
}

// Begin implements httpsink.Dialect.
func (l *lines) Begin(ctx context.Context) {
	l.limit.Begin(ctx)
	l.series.Begin(time.Now())
}

// Encode implements httpsink.Dialect.
func (l *lines) Encode(dst []byte, r *record.Record, _ common.RecordID) (item httpsink.Item, err error) {
	fields, err := l.payloadOf(r)
	if err != nil {
		return item, err
	}
	if l.key, err = l.appendKey(l.key[:0], r); err != nil {
		return item, err
	}
	series, err := l.series.Use(l.key)
	if err != nil {
		return item, err
	}
	at := l.series.Time(series, r)
	dst = append(append(dst, series.Key...), ' ')
	before := len(dst)
	if dst, err = l.appendFields(dst, "", fields, l.only == nil); err != nil {
		return item, err
	}
	if len(dst) == before {
		return item, errors.New("cannot write the record: its payload has no member for a field of the point: check " +
			"fields and fields.exclude")
	}
	dst[len(dst)-1] = ' ' // instead of the last comma
	dst = strconv.AppendInt(dst, at, 10)
	return httpsink.Item{Text: append(dst, '\n'), Key: series.Key + " " + strconv.FormatInt(at, 10)}, nil
}

// payloadOf returns the payload: structured data, or text that is a JSON object. Other text is the member message.
func (l *lines) payloadOf(r *record.Record) (map[string]any, error) {
	if r.After.IsNone() {
		return nil, errors.New("cannot write the record: it has no payload after the change: remove deletes with the " +
			"processor filter")
	}
	if fields, ok := r.After.Structured(); ok {
		return fields, nil
	}
	raw, _ := r.After.Raw()
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var fields map[string]any
		if d.Decode(&fields) == nil && !d.More() {
			return fields, nil
		}
	}
	return map[string]any{l.message: string(raw)}, nil
}

// appendKey appends the measurement and the tags.
func (l *lines) appendKey(dst []byte, r *record.Record) (_ []byte, err error) {
	if l.buf, err = l.measurement.Append(&l.limit, l.buf[:0], r); err != nil {
		return dst, fmt.Errorf("cannot execute the template of measurement: %w", err)
	}
	if err := checkMeasurement(string(l.buf)); err != nil {
		return dst, fmt.Errorf("cannot write the record: its measurement is wrong: %w", err)
	}
	dst = appendEscaped(dst, string(l.buf), inMeasurement)
	for _, t := range l.tags {
		if l.buf, err = t.value.Append(&l.limit, l.buf[:0], r); err != nil {
			return dst, fmt.Errorf("cannot execute the template of tags.%s: %w", t.name, err)
		}
		if len(l.buf) == 0 {
			continue
		}
		if err := checkName(string(l.buf)); err != nil {
			return dst, fmt.Errorf("cannot write the record: its tag %s is wrong: %w", t.name, err)
		}
		dst = append(appendEscaped(append(dst, ','), t.name, inKey), '=')
		dst = appendEscaped(dst, string(l.buf), inKey)
	}
	return dst, nil
}

// appendFields appends name=value, for each member that is a field. prefix is the path of the object in the payload,
// and listed reports whether all its members are fields.
func (l *lines) appendFields(dst []byte, prefix string, fields map[string]any, listed bool) (_ []byte, err error) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path := prefix + name
		if l.exclude[path] {
			continue
		}
		value, listed := fields[name], listed || l.only[path]
		if inner, ok := value.(map[string]any); ok {
			if dst, err = l.appendFields(dst, path+".", inner, listed); err != nil {
				return dst, err
			}
			continue
		}
		if !listed {
			continue
		}
		text, err := l.value(value)
		if err != nil {
			return dst, fmt.Errorf("cannot write the record: its field %.64q is wrong: %w", path, err)
		}
		if text == "" {
			continue
		}
		if err := checkKey(path); err != nil {
			return dst, fmt.Errorf("cannot write the record: %w", err)
		}
		dst = append(appendEscaped(dst, path, inKey), '=')
		dst = append(append(dst, text...), ',')
	}
	return dst, nil
}

// value returns a value in the line protocol; "" for one that is no value there.
func (l *lines) value(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		return quoted(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return l.whole(n), nil
		}
		f, err := v.Float64()
		if err != nil || l.integers && !strings.ContainsAny(v.String(), ".eE") {
			return "", fmt.Errorf("the number %.64q is too large", v.String())
		}
		return float(f), nil
	case float64:
		return float(v), nil
	case float32:
		return float(float64(v)), nil
	case time.Time:
		return quoted(v.Format(time.RFC3339Nano))
	}
	text, err := record.AppendValue(nil, v)
	if err != nil {
		return "", fmt.Errorf("cannot encode it: %w", err)
	}
	switch text[0] {
	case '[':
		return quoted(string(text))
	case '"': // bytes
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return "", fmt.Errorf("cannot encode it: %w", err)
		}
		return quoted(s)
	}
	return l.value(json.Number(text)) // other types of integers
}

func (l *lines) whole(n int64) string {
	if l.integers {
		return strconv.FormatInt(n, 10) + "i"
	}
	return strconv.FormatInt(n, 10)
}

// float returns a number, or "" for one that the line protocol does not have.
func float(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// quoted returns a string value.
func quoted(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", errors.New("it is not UTF-8 text")
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`, nil
}

func appendEscaped(dst []byte, text, special string) []byte {
	for i := range len(text) {
		if strings.IndexByte(special, text[i]) >= 0 {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return dst
}

// Body implements httpsink.Dialect.
func (*lines) Body(items []httpsink.Item) []byte { return httpsink.Concat(items, "", "", "") }

// Outcomes implements httpsink.Dialect.
func (*lines) Outcomes(r *httpclient.Response, n int) ([]error, error) {
	return httpsink.Accepted(r, n)
}
