package splunk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// collector is the dialect of the HTTP Event Collector: JSON objects one after the other.
type collector struct {
	members  []member // of an event
	fields   []member // of the object fields in an event
	oneIndex bool     // index does not depend on the record
	limit    template.TimeLimit
	buf      []byte // for values of members
}

// member is a member of an object.
type member struct {
	setting, name string
	value         *template.Template
}

var _ httpsink.Dialect = (*collector)(nil)

func newCollector(s *settings) (*collector, error) {
	c := &collector{}
	for _, m := range []struct{ name, text string }{
		{"host", s.Host}, {"index", s.Index}, {"source", s.Source}, {"sourcetype", s.Sourcetype},
	} {
		if m.text == "" {
			continue
		}
		t, err := common.ParseTemplate(m.name, m.text, nil)
		if err != nil {
			return nil, err
		}
		if m.name == "index" {
			_, c.oneIndex = t.Constant()
		}
		c.members = append(c.members, member{m.name, m.name, t})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		t, err := common.ParseTemplate("fields."+name, s.Fields[name], nil)
		if err != nil {
			return nil, err
		}
		c.fields = append(c.fields, member{"fields." + name, name, t})
	}
	return c, nil
}

// Begin implements httpsink.Dialect.
func (c *collector) Begin(ctx context.Context) { c.limit.Begin(ctx) }

// Encode implements httpsink.Dialect.
func (c *collector) Encode(dst []byte, r *record.Record, _ common.RecordID) (item httpsink.Item, err error) {
	dst = append(dst, '{')
	if at, known := httpsink.TimeOf(r); known {
		// Seconds with a fraction, as an exact decimal.
		dst = append(dst, `"time":`...)
		dst = strconv.AppendInt(dst, at.Unix(), 10)
		dst = fmt.Appendf(dst, ".%09d,", at.Nanosecond())
	}
	if dst, err = c.appendMembers(dst, c.members, r); err != nil {
		return item, err
	}
	if len(c.fields) > 0 {
		if dst, err = c.appendMembers(append(dst, `"fields":{`...), c.fields, r); err != nil {
			return item, err
		}
		dst = append(bytes.TrimSuffix(dst, []byte(",")), "},"...)
	}
	if dst, err = appendEvent(append(dst, `"event":`...), r); err != nil {
		return item, err
	}
	return httpsink.Item{Text: append(dst, '}')}, nil
}

// appendMembers appends the members that are not empty, each with a comma behind it.
func (c *collector) appendMembers(dst []byte, all []member, r *record.Record) (_ []byte, err error) {
	for _, m := range all {
		if c.buf, err = m.value.Append(&c.limit, c.buf[:0], r); err != nil {
			return dst, fmt.Errorf("cannot execute the template of %s: %w", m.setting, err)
		}
		if len(c.buf) == 0 {
			continue
		}
		dst = append(record.AppendJSONText(dst, m.name), ':')
		dst = append(record.AppendJSONText(dst, string(c.buf)), ',')
	}
	return dst, nil
}

// appendEvent appends the payload: an object, or a text that is not empty.
func appendEvent(dst []byte, r *record.Record) ([]byte, error) {
	raw, isRaw := r.After.Raw()
	switch text := bytes.TrimSpace(raw); {
	case r.After.IsNone():
		return dst, errors.New("cannot send the record: it has no payload after the change: remove deletes with the " +
			"processor filter")
	case !isRaw, len(text) > 0 && text[0] == '{' && json.Valid(text):
		return httpsink.AppendObject(dst, r.After, "")
	case len(text) == 0:
		return dst, errors.New("cannot send the record: its payload is empty, and the collector refuses empty events: " +
			"remove it with the processor filter")
	case !utf8.Valid(raw):
		return dst, errors.New("cannot send the record: its payload is neither structured nor UTF-8 text")
	}
	return record.AppendJSONText(dst, string(raw)), nil
}

// Body implements httpsink.Dialect.
func (*collector) Body(items []httpsink.Item) []byte { return httpsink.Concat(items, "", "\n", "") }

// Codes of responses of the collector.
const (
	codeTokenDisabled  = 1
	codeTokenRequired  = 2
	codeInvalidHeader  = 3
	codeInvalidToken   = 4
	codeIncorrectIndex = 7
	codeNoChannel      = 10
	codeInvalidChannel = 11
	codeNoAck          = 14
)

// answer is a response of the collector.
type answer struct {
	Text  string `json:"text"`
	Code  *int   `json:"code"`
	AckID *int64 `json:"ackId"`
}

// Outcomes implements httpsink.Dialect.
func (*collector) Outcomes(r *httpclient.Response, n int) ([]error, error) {
	a, err := parse(r)
	if err != nil {
		return nil, err
	}
	if *a.Code != 0 {
		return nil, fmt.Errorf("it has the code %d: %.200q", *a.Code, a.Text)
	}
	return make([]error, n), nil
}

func parse(r *httpclient.Response) (a answer, err error) {
	if err := json.Unmarshal(r.Body, &a); err != nil || a.Code == nil {
		return a, errors.New("it is not the response of an event collector: check url")
	}
	return a, nil
}

// remedies are what to change when the collector denies a request, by code.
var remedies = map[int]string{
	codeTokenDisabled:  "enable the token in Splunk, or set auth.hecToken to another",
	codeTokenRequired:  "set auth.hecToken",
	codeInvalidHeader:  "correct auth.hecToken",
	codeInvalidToken:   "correct auth.hecToken",
	codeNoChannel:      "the token has indexer acknowledgement: set acknowledge to true",
	codeInvalidChannel: "the token has indexer acknowledgement: set acknowledge to true",
	codeNoAck:          "the token has no indexer acknowledgement: set acknowledge to false, or enable it in Splunk",
}

// denies returns why the collector refuses any record with these settings.
func (d *Destination) denies(r *httpclient.Response) error {
	a, err := parse(r)
	if err != nil {
		return nil
	}
	remedy := remedies[*a.Code]
	if *a.Code == codeIncorrectIndex && d.dialect.oneIndex {
		remedy = "correct index, or allow it for the token in Splunk"
	}
	if remedy == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", d.Sink.Client.ResponseError(r), remedy)
}
