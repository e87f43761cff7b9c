package otlp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	otlpcommon "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// plainSettings define how records that no otlp source made become log records.
type plainSettings struct {
	// Body of the log record of a record that no otlp source made, as a template. Empty: the payload, with its
	// structure.
	Body string `json:"log.body" template:"true"`
	// Time of the log record, as a template of a time in RFC 3339 or of nanoseconds since 1970. Empty: the metadata
	// opencdc.createdAt.
	Time string `json:"log.time" template:"true"`
	// Severity, as a template of a number from 1 to 24 or of a name, such as {{ .Payload.After.level }}. Other names
	// become the text of the severity, without a number.
	Severity string `json:"log.severity" template:"true"`
	// Attributes, as in http.route=/orders, shop={{ .Payload.After.shop }}. Values are templates without commas.
	Attributes string `json:"log.attributes" template:"true"`
	// Attributes of the resource, as in service.name=shop, host.name={{ .Payload.After.host }}. Values are templates
	// without commas.
	Resource string `json:"resource.attributes" template:"true"`
}

// plain makes log records of records.
type plain struct {
	body, time, severity *template.Template // nil: not set
	attributes, resource []named
	limit                template.TimeLimit
}

// named is the template of an attribute.
type named struct {
	name  string
	value *template.Template
}

func newPlain(s *plainSettings) (p *plain, err error) {
	p = &plain{}
	for _, one := range []struct {
		into          **template.Template
		setting, text string
	}{{&p.body, "log.body", s.Body}, {&p.time, "log.time", s.Time}, {&p.severity, "log.severity", s.Severity}} {
		if one.text == "" {
			continue
		}
		if *one.into, err = common.ParseTemplate(one.setting, one.text, nil); err != nil {
			return nil, err
		}
	}
	if p.attributes, err = namedTemplates("log.attributes", s.Attributes); err != nil {
		return nil, err
	}
	p.resource, err = namedTemplates("resource.attributes", s.Resource)
	return p, err
}

// namedTemplates parses a list such as a=b, c={{ .Payload.After.d }}.
func namedTemplates(setting, list string) (all []named, err error) {
	for pair := range strings.SplitSeq(list, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, text, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, sdk.SettingError{Setting: setting,
				Message: fmt.Sprintf("%q must have the form name=value, without a comma in the value", pair)}
		}
		t, err := common.ParseTemplate(setting, strings.TrimSpace(text), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, named{name, t})
	}
	slices.SortStableFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// begin begins a batch.
func (p *plain) begin(ctx context.Context) { p.limit.Begin(ctx) }

// text runs a template.
func (p *plain) text(setting string, t *template.Template, r *record.Record) (string, error) {
	text, err := t.Append(&p.limit, nil, r)
	if err != nil {
		return "", fmt.Errorf("cannot execute the template of %s: %w", setting, err)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// item returns a record as a log record.
func (p *plain) item(r *record.Record) (i *item, err error) {
	l := &logs.LogRecord{}
	if l.Body, err = p.bodyOf(r); err != nil {
		return nil, err
	}
	if l.TimeUnixNano, err = p.timeOf(r); err != nil {
		return nil, err
	}
	if p.severity != nil {
		text, err := p.text("log.severity", p.severity, r)
		if err != nil {
			return nil, err
		}
		l.SeverityNumber, l.SeverityText = severityOf(strings.TrimSpace(text))
	}
	if l.Attributes, err = p.keyValues("log.attributes", p.attributes, r); err != nil {
		return nil, err
	}
	i = &item{signal: logsSignal, item: l}
	if len(p.resource) > 0 {
		i.head.resource = &resource.Resource{}
		i.head.resource.Attributes, err = p.keyValues("resource.attributes", p.resource, r)
	}
	return i, err
}

func (p *plain) keyValues(setting string, all []named, r *record.Record) (made []*otlpcommon.KeyValue, err error) {
	for _, one := range all {
		text, err := p.text(setting, one.value, r)
		if err != nil {
			return nil, err
		}
		made = append(made, &otlpcommon.KeyValue{Key: one.name, Value: textValue(text)})
	}
	return made, nil
}

// bodyOf returns the output of the template, or the payload after the change, or before it if there is none.
func (p *plain) bodyOf(r *record.Record) (*otlpcommon.AnyValue, error) {
	if p.body != nil {
		text, err := p.text("log.body", p.body, r)
		return textValue(text), err
	}
	data := r.After
	if data.IsNone() {
		data = r.Before
	}
	if data.IsNone() {
		data = r.Key
	}
	if raw, ok := data.Raw(); ok {
		if utf8.Valid(raw) {
			return textValue(string(raw)), nil
		}
		return bytesValue(raw), nil
	}
	if o, ok := data.Structured(); ok {
		return (&encoder{}).value(o, 0)
	}
	return nil, nil
}

func (p *plain) timeOf(r *record.Record) (uint64, error) {
	text := r.Metadata.Get(record.KeyCreatedAt)
	if p.time != nil {
		var err error
		if text, err = p.text("log.time", p.time, r); err != nil {
			return 0, err
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	n, err := nanoseconds(text)
	if err != nil && p.time != nil {
		return 0, fmt.Errorf("log.time is %q: %w", text, err)
	}
	return n, nil
}

// severities are the numbers of names, which are the first ones of their ranges in the data model of logs.
var severities = map[string]logs.SeverityNumber{
	"trace": 1, "debug": 5, "info": 9, "information": 9, "informational": 9, "notice": 10, "warn": 13, "warning": 13,
	"error": 17, "err": 17, "critical": 18, "crit": 18, "alert": 19, "fatal": 21, "panic": 21, "emerg": 21,
	"emergency": 21,
}

const maxSeverity = 24

// severityOf returns the number and the text of a severity.
func severityOf(text string) (logs.SeverityNumber, string) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 && n <= maxSeverity {
		return logs.SeverityNumber(n), ""
	}
	return severities[strings.ToLower(text)], text
}
