package loki

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// push is the dialect of the push API: lines in streams. The key of an item is the JSON object with the labels of its
// stream, and its text an array with the time, the line and perhaps the structured metadata.
type push struct {
	labels   []member
	metadata []member
	line     *template.Template // nil: the payload
	streams  *httpsink.Series
	limit    template.TimeLimit
	buf      []byte // for values of members
	key      []byte
}

// member is a member of an object.
type member struct {
	name  string
	value *template.Template
}

var (
	_ httpsink.Dialect = (*push)(nil)

	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// maxLabels is the maximum size of the labels of a line in bytes.
const maxLabels = 16 << 10

func newPush(s *settings) (_ *push, err error) {
	p := &push{streams: httpsink.NewSeries(s.MaxStreams, "streams", "streams.max")}
	if len(s.Labels) == 0 {
		return nil, sdk.SettingError{Setting: "labels.*",
			Message: "is required: set at least one label, such as labels.job: app"}
	}
	for name := range s.Labels {
		if !labelName.MatchString(name) {
			return nil, sdk.SettingError{Setting: "labels." + name,
				Message: "the name of a label must consist of letters, digits and _, and not begin with a digit"}
		}
	}
	if p.labels, err = members("labels.", s.Labels); err != nil {
		return nil, err
	}
	if p.metadata, err = members("metadata.", s.Metadata); err != nil {
		return nil, err
	}
	if s.Line != "" {
		p.line, err = common.ParseTemplate("line", s.Line, nil)
	}
	return p, err
}

// members returns the members sorted by name.
func members(prefix string, texts map[string]string) (all []member, err error) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t, err := common.ParseTemplate(prefix+name, texts[name], nil)
		if err != nil {
			return nil, err
		}
		all = append(all, member{name, t})
	}
	return all, nil
}

// Begin implements httpsink.Dialect.
func (p *push) Begin(ctx context.Context) {
	p.limit.Begin(ctx)
	p.streams.Begin(time.Now())
}

// Encode implements httpsink.Dialect.
func (p *push) Encode(dst []byte, r *record.Record, _ common.RecordID) (item httpsink.Item, err error) {
	key, none, err := p.appendMembers(p.key[:0], "labels", p.labels, r)
	p.key = key
	switch {
	case err != nil:
		return item, err
	case none:
		return item, errors.New("cannot write the record: all its labels are empty: set one of labels.* to a text " +
			"that is never empty")
	case len(key) > maxLabels:
		return item, fmt.Errorf("cannot write the record: its labels have %d bytes, more than %d", len(key), maxLabels)
	}
	stream, err := p.streams.Use(key)
	if err != nil {
		return item, err
	}
	item.Key = stream.Key
	dst = strconv.AppendInt(append(dst, `["`...), p.streams.Time(stream, r), 10)
	if dst, err = p.appendLine(append(dst, `",`...), r); err != nil {
		return item, err
	}
	if len(p.metadata) > 0 {
		start := len(dst)
		if dst, none, err = p.appendMembers(append(dst, ','), "metadata", p.metadata, r); err != nil {
			return item, err
		}
		if none {
			dst = dst[:start]
		}
	}
	item.Text = append(dst, ']')
	return item, nil
}

// appendMembers appends a JSON object of the members that are not empty. none reports that all are.
func (p *push) appendMembers(
	dst []byte, setting string, all []member, r *record.Record,
) (_ []byte, none bool, err error) {
	none = true
	dst = append(dst, '{')
	for _, m := range all {
		if p.buf, err = m.value.Append(&p.limit, p.buf[:0], r); err != nil {
			return dst, none, fmt.Errorf("cannot execute the template of %s.%s: %w", setting, m.name, err)
		}
		if len(p.buf) == 0 {
			continue
		}
		if !none {
			dst = append(dst, ',')
		}
		none = false
		dst = append(record.AppendJSONText(dst, m.name), ':')
		dst = record.AppendJSONText(dst, string(p.buf))
	}
	return append(dst, '}'), none, nil
}

// appendLine appends the line as a JSON string.
func (p *push) appendLine(dst []byte, r *record.Record) (_ []byte, err error) {
	switch {
	case p.line != nil:
		if p.buf, err = p.line.Append(&p.limit, p.buf[:0], r); err != nil {
			return dst, fmt.Errorf("cannot execute the template of line: %w", err)
		}
	case r.After.IsNone():
		return dst, errors.New("cannot write the record: it has no payload after the change: set line, or remove " +
			"deletes with the processor filter")
	default:
		raw, isRaw := r.After.Raw()
		if p.buf = append(p.buf[:0], raw...); !isRaw {
			if p.buf, err = r.After.AppendJSON(p.buf[:0]); err != nil {
				return dst, fmt.Errorf("cannot encode the payload: %w", err)
			}
		}
	}
	if !utf8.Valid(p.buf) {
		return dst, errors.New("cannot write the record: its line is not UTF-8 text")
	}
	return record.AppendJSONText(dst, string(p.buf)), nil
}

// Body implements httpsink.Dialect.
func (*push) Body(items []httpsink.Item) []byte {
	streams := map[string]int{}
	var groups [][]httpsink.Item
	for _, item := range items {
		i, ok := streams[item.Key]
		if !ok {
			i = len(groups)
			streams[item.Key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	body := []byte(`{"streams":[`)
	for i, group := range groups {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, `{"stream":`...), group[0].Key...)
		body = append(body, httpsink.Concat(group, `,"values":[`, ",", "]}")...)
	}
	return append(body, "]}"...)
}

// Outcomes implements httpsink.Dialect.
func (*push) Outcomes(r *httpclient.Response, n int) ([]error, error) { return httpsink.Accepted(r, n) }
