package prometheus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// writer is the dialect of remote write. The key of an item has the labels of the series, as fields of TimeSeries
// in 1.0. The text is written by encoded.
type writer struct {
	v2       bool
	utf8     bool // names may be any text
	name     *template.Template
	value    *template.Template
	time     *template.Template
	metadata [3]*template.Template // type, help and unit
	labels   []labelTemplate

	series   *httpsink.Series
	families *httpsink.Series
	limit    template.TimeLimit
	buf, key []byte

	sent      []sent            // of the last body
	announced []*family         // with their metadata in the last body
	times     map[instant]bool  // of samples since the last body
	counts    map[string]uint64 // of samples and histograms in the last body, by the header that confirms them

	excuses  int // see judge
	repeated int // samples that counted as repeated since the begin of Write
}

type labelTemplate struct {
	name  string
	value *template.Template
}

// state is the state of a series.
type state struct {
	accepted int64 // time of the newest sample that the server has accepted in this run, in milliseconds
	read     int64 // last time that was derived from the time of reading
}

// instant is the time of a sample in a series.
type instant struct {
	series *httpsink.Used
	at     int64
}

// sent is an item of a request.
type sent struct {
	state *state
	at    int64
}

// family is a metric with its metadata.
type family struct {
	name      string
	kind      uint64 // index in types
	help      string
	unit      string
	announced bool // the server has the metadata
}

var (
	_ httpsink.Dialect = (*writer)(nil)

	metricPattern = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelPattern  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

func newWriter(s *settings) (_ *writer, err error) {
	w := &writer{v2: s.Protocol == "2", utf8: s.Names == "utf8", excuses: common.IDWindow,
		series:   httpsink.NewSeries(s.MaxSeries, "series", "series.max"),
		families: httpsink.NewSeries(s.MaxSeries, "metrics with metadata", "series.max")}
	for _, one := range []struct {
		into          **template.Template
		setting, text string
		check         func(string) error
	}{
		{&w.name, "name", s.Name, w.checkMetric}, {&w.value, "value", s.Value, checkValue},
		{&w.time, "time", s.Time, checkTime}, {&w.metadata[0], "type", s.Type, checkType},
		{&w.metadata[1], "help", s.Help, nil}, {&w.metadata[2], "unit", s.Unit, nil},
	} {
		if one.text == "" {
			continue
		}
		if *one.into, err = common.ParseTemplate(one.setting, one.text, one.check); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if err := w.checkLabel(name); err != nil {
			return nil, sdk.SettingError{Setting: "labels." + name, Message: err.Error()}
		}
		t, err := common.ParseTemplate("labels."+name, s.Labels[name], nil)
		if err != nil {
			return nil, err
		}
		w.labels = append(w.labels, labelTemplate{name, t})
	}
	return w, nil
}

const remedy = ": replace the other characters, or set names to utf8 if the server accepts them"

// checkMetric returns an error for a name that no metric can have.
func (w *writer) checkMetric(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case w.utf8 && utf8.ValidString(name) || metricPattern.MatchString(name):
		return nil
	}
	return fmt.Errorf("the name %.64q must consist of letters, digits, _ and :, and not begin with a digit%s", name,
		remedy)
}

// checkLabel returns an error for a name that no label can have.
func (w *writer) checkLabel(name string) error {
	switch {
	case name == nameLabel:
		return errors.New("the name of the metric is no label: set name")
	case w.utf8 && name != "" && utf8.ValidString(name) || labelPattern.MatchString(name):
		return nil
	}
	return fmt.Errorf("the name %.64q of a label must consist of letters, digits and _, and not begin with a digit%s",
		name, remedy)
}

func checkValue(text string) error {
	_, err := parseValue(text)
	return err
}

func checkTime(text string) error {
	_, err := parseTime(text)
	return err
}

func checkType(text string) error {
	if !slices.Contains(types[:], text) {
		return fmt.Errorf("%.64q is none of %s", text, strings.Join(types[:], ", "))
	}
	return nil
}

// parseTime parses a time in RFC 3339 or in milliseconds since 1970, and returns milliseconds.
func parseTime(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%.64q is no time in RFC 3339 and no number of milliseconds since 1970", text)
	}
	return at.UnixMilli(), nil
}

// encoded is a sample, or what else a record stands for.
type encoded struct {
	kind  byte // see below
	at    int64
	value []byte // message Sample, Histogram or Exemplar; name of the metric for metadata
}

// Kinds of encoded items.
const (
	encodedSample byte = iota
	encodedHistogram
	encodedExemplar
	encodedMetadata
)

// append appends the text of an item with this key.
func (e *encoded) append(dst []byte, key string) []byte {
	dst = append(append(dst, key...), e.kind)
	return append(binary.LittleEndian.AppendUint64(dst, uint64(e.at)), e.value...)
}

// decode is the inverse of append.
func decode(item *httpsink.Item) encoded {
	rest := item.Text[len(item.Key):]
	return encoded{rest[0], int64(binary.LittleEndian.Uint64(rest[1:])), rest[9:]}
}

// Begin implements httpsink.Dialect.
func (w *writer) Begin(ctx context.Context) {
	now := time.Now()
	w.limit.Begin(ctx)
	w.series.Begin(now)
	w.families.Begin(now)
	w.repeated = 0
}

// Encode implements httpsink.Dialect.
func (w *writer) Encode(dst []byte, r *record.Record, _ common.RecordID) (item httpsink.Item, err error) {
	fields, r, err := payloadOf(r)
	if err != nil {
		return item, err
	}
	name, err := w.nameOf(fields, r)
	if err != nil {
		return item, err
	}
	kind := w.kindOf(fields, r)
	if err := w.note(name, fields, r); err != nil {
		return item, err
	}
	if kind == encodedMetadata {
		e := encoded{kind: kind, value: []byte(name)}
		item.Text = e.append(dst, "")
		return item, nil
	}
	if w.key, err = w.appendLabels(w.key[:0], name, fields, r); err != nil {
		return item, err
	}
	series, err := w.series.Use(w.key)
	if err != nil {
		return item, err
	}
	e := encoded{kind: kind}
	if e.at, err = w.timeOf(series, r); err != nil {
		return item, err
	}
	if e.value, err = w.messageOf(kind, e.at, fields, r); err != nil {
		return item, err
	}
	item.Key = series.Key
	item.Text = e.append(dst, item.Key)
	if kind != encodedExemplar {
		if w.times == nil {
			w.times = map[instant]bool{}
		}
		// The server keeps one of several samples with the same time, and reports an error only if they are in
		// different requests.
		item.Apart = w.times[instant{series, e.at}]
		w.times[instant{series, e.at}] = true
	}
	return item, nil
}

// payloadOf returns the payload as an object: structured data, or text that is a JSON object; nil for other text.
// Templates see the object in the returned record.
func payloadOf(r *record.Record) (map[string]any, *record.Record, error) {
	if r.After.IsNone() {
		return nil, nil, errors.New("cannot write the record: it has no payload after the change: remove deletes with " +
			"the processor filter")
	}
	if fields, ok := r.After.Structured(); ok {
		return fields, r, nil
	}
	raw, _ := r.After.Raw()
	text := bytes.TrimSpace(raw)
	if len(text) == 0 || text[0] != '{' {
		return nil, r, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	if d.Decode(&fields) != nil || d.More() {
		return nil, r, nil
	}
	view := *r
	view.After = record.Structured(fields)
	return fields, &view, nil
}

// execute executes the template of a setting. The result is valid until the next call.
func (w *writer) execute(t *template.Template, setting string, r *record.Record) (_ []byte, err error) {
	if w.buf, err = t.Append(&w.limit, w.buf[:0], r); err != nil {
		return nil, fmt.Errorf("cannot execute the template of %s: %w", setting, err)
	}
	return w.buf, nil
}

func (w *writer) nameOf(fields map[string]any, r *record.Record) (string, error) {
	name, isText := fields[memberName].(string)
	if w.name != nil {
		text, err := w.execute(w.name, "name", r)
		if err != nil {
			return "", err
		}
		name = string(text)
	} else if !isText {
		return "", errors.New("cannot write the record: it has no name: set name, or add the member name, a text, to its " +
			"payload")
	}
	if err := w.checkMetric(name); err != nil {
		return "", fmt.Errorf("cannot write the record: its name is wrong: %w", err)
	}
	return name, nil
}

func (w *writer) kindOf(fields map[string]any, r *record.Record) byte {
	has := func(member string) bool { _, ok := fields[member]; return ok && w.value == nil }
	switch {
	case has(memberExemplar):
		return encodedExemplar
	case has(memberHistogram):
		return encodedHistogram
	case !has(memberValue) && w.value == nil && r.Metadata.Get(keyKind) == kindMetadata:
		return encodedMetadata
	}
	return encodedSample
}

// note keeps the type, the help and the unit of the metric.
func (w *writer) note(name string, fields map[string]any, r *record.Record) error {
	var texts [3]string
	for i, setting := range [...]string{memberType, memberHelp, memberUnit} {
		texts[i], _ = fields[setting].(string)
		if w.metadata[i] != nil {
			text, err := w.execute(w.metadata[i], setting, r)
			if err != nil {
				return err
			}
			texts[i] = string(text)
		}
		if !utf8.ValidString(texts[i]) {
			return fmt.Errorf("cannot write the record: its %s is not UTF-8 text", setting)
		}
		if len(texts[i]) > maxLabels {
			return fmt.Errorf("cannot write the record: its %s has %d bytes, more than %d", setting, len(texts[i]), maxLabels)
		}
	}
	kind := max(0, slices.Index(types[:], texts[0]))
	if texts[0] != "" && types[kind] != texts[0] && w.metadata[0] != nil {
		return fmt.Errorf("cannot write the record: its type is wrong: %w", checkType(texts[0]))
	}
	if kind == 0 && texts[1] == "" && texts[2] == "" {
		return nil
	}
	one, err := w.families.Use([]byte(familyName(name, types[kind])))
	if err != nil {
		return err
	}
	next := &family{name: one.Key, kind: uint64(kind), help: texts[1], unit: texts[2]}
	if before, ok := one.State.(*family); ok {
		if next.announced = before.announced; *before == *next {
			return nil
		}
	}
	next.announced = false
	one.State = next
	return nil
}

// suffixes are the ends of the names of series of a type, which are not part of the name of the metric.
var suffixes = map[string][]string{"histogram": {"_bucket", "_count", "_sum"}, "summary": {"_count", "_sum"},
	"gaugehistogram": {"_bucket", "_gcount", "_gsum"}}

// familyName returns the name of the metric to which a series with a name belongs.
func familyName(name, kind string) string {
	for _, suffix := range suffixes[kind] {
		if base, ok := strings.CutSuffix(name, suffix); ok && base != "" {
			return base
		}
	}
	return name
}

// appendLabels appends the name and the labels, sorted, as fields of TimeSeries in 1.0.
func (w *writer) appendLabels(dst []byte, name string, fields map[string]any, r *record.Record) ([]byte, error) {
	all := []pair{{nameLabel, name}}
	if v, ok := fields[memberLabels]; ok {
		object, ok := v.(map[string]any)
		if !ok {
			return dst, errors.New("cannot write the record: the member labels of the payload is not an object")
		}
		own, err := w.pairs(object)
		if err != nil {
			return dst, fmt.Errorf("cannot write the record: %w", err)
		}
		all = append(all, own...)
	}
	for _, l := range w.labels {
		text, err := w.execute(l.value, "labels."+l.name, r)
		if err != nil {
			return dst, err
		}
		all = slices.DeleteFunc(all, func(p pair) bool { return p.name == l.name })
		if len(text) > 0 {
			all = append(all, pair{l.name, string(text)})
		}
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	for _, p := range all {
		if !utf8.ValidString(p.value) {
			return dst, fmt.Errorf("cannot write the record: its label %s is not UTF-8 text", p.name)
		}
		dst = appendLabel(dst, seriesLabels, p.name, p.value)
	}
	if len(dst) > maxLabels {
		return dst, fmt.Errorf("cannot write the record: its labels have %d bytes, more than %d", len(dst), maxLabels)
	}
	return dst, nil
}

// pair is a label.
type pair struct{ name, value string }

// pairs returns the members of an object as labels, without empty ones.
func (w *writer) pairs(object map[string]any) (all []pair, err error) {
	for name, v := range object {
		if err := w.checkLabel(name); err != nil {
			return nil, err
		}
		text, isText := v.(string)
		switch v.(type) {
		case map[string]any, []any:
			return nil, fmt.Errorf("the label %s is an object or a list", name)
		}
		if !isText && v != nil {
			if text, err = record.Text(v); err != nil {
				return nil, fmt.Errorf("the label %s is no text: %w", name, err)
			}
		}
		if text != "" {
			all = append(all, pair{name, text})
		}
	}
	return all, nil
}

// timeOf returns the time of a record in milliseconds. Records of a series that have only the time of reading become a
// millisecond apart.
func (w *writer) timeOf(series *httpsink.Used, r *record.Record) (int64, error) {
	one := stateOf(series)
	if w.time != nil {
		text, err := w.execute(w.time, "time", r)
		if err != nil {
			return 0, err
		}
		at, err := parseTime(string(text))
		if err != nil {
			return 0, fmt.Errorf("cannot write the record: its time is wrong: %w", err)
		}
		return at, nil
	}
	at, created := httpsink.TimeOf(r)
	if created && r.Metadata.Get(record.KeyCreatedAt) != "" {
		return at.UnixMilli(), nil
	}
	if !created {
		at = time.Now()
	}
	one.read = max(one.read+1, at.UnixMilli())
	return one.read, nil
}

// stateOf returns the state of a series.
func stateOf(series *httpsink.Used) *state {
	one, ok := series.State.(*state)
	if !ok {
		one = &state{accepted: math.MinInt64, read: math.MinInt64}
		series.State = one
	}
	return one
}

// messageOf returns the encoded message of a record.
func (w *writer) messageOf(kind byte, at int64, fields map[string]any, r *record.Record) (m []byte, err error) {
	refuse := func(what string, err error) ([]byte, error) {
		return nil, fmt.Errorf("cannot write the record: its %s is wrong: %w", what, err)
	}
	start := int64(0)
	if v, ok := fields[memberStart]; ok && w.v2 && w.value == nil {
		if start, err = wholeOf(v); err != nil {
			return refuse(memberStart, err)
		}
	}
	switch kind {
	case encodedHistogram:
		object, ok := fields[memberHistogram].(map[string]any)
		if !ok {
			return refuse(memberHistogram, errors.New("it is no object"))
		}
		if m, err = appendHistogram(nil, object, at, start); err != nil {
			return refuse(memberHistogram, err)
		}
		return m, nil
	case encodedExemplar:
		if m, err = w.appendExemplar(nil, at, fields[memberExemplar]); err != nil {
			return refuse(memberExemplar, err)
		}
		return m, nil
	}
	bits, err := w.bitsOf(fields, r)
	if err != nil {
		return nil, err
	}
	m = appendVarint(appendDouble(nil, sampleValue, bits), sampleTime, uint64(at))
	if start != 0 {
		m = appendVarint(m, sampleStart, uint64(start))
	}
	return m, nil
}

// bitsOf returns the value of a sample.
func (w *writer) bitsOf(fields map[string]any, r *record.Record) (bits uint64, err error) {
	if w.value != nil {
		text, err := w.execute(w.value, "value", r)
		if err != nil {
			return 0, err
		}
		bits, err = parseValue(string(text))
		if err != nil {
			return 0, fmt.Errorf("cannot write the record: its value is wrong: %w", err)
		}
		return bits, nil
	}
	v, ok := fields[memberValue]
	if !ok {
		return 0, errors.New("cannot write the record: it has no value: set value, or add the member value, a number, to " +
			"its payload")
	}
	if bits, err = bitsOf(v); err != nil {
		return 0, fmt.Errorf("cannot write the record: its value is wrong: %w", err)
	}
	return bits, nil
}

// appendExemplar appends an exemplar as a message of 1.0.
func (w *writer) appendExemplar(dst []byte, at int64, v any) ([]byte, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return dst, errors.New("it is no object")
	}
	labels, ok := object[memberLabels].(map[string]any)
	if _, has := object[memberLabels]; has && !ok {
		return dst, errors.New("its labels are no object")
	}
	all, err := w.pairs(labels)
	if err != nil {
		return dst, err
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	for _, p := range all {
		if !utf8.ValidString(p.value) {
			return dst, fmt.Errorf("its label %s is not UTF-8 text", p.name)
		}
		dst = appendLabel(dst, exemplarLabels, p.name, p.value)
	}
	bits, err := bitsOf(object[memberValue])
	if err != nil {
		return dst, fmt.Errorf("its value is wrong: %w", err)
	}
	return appendVarint(appendDouble(dst, exemplarValue, bits), exemplarTime, uint64(at)), nil
}
