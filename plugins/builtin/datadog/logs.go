package datadog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// logs is the dialect of the API for logs: a JSON array of objects.
type logs struct {
	message string
	members []member
	limit   template.TimeLimit
	buf     []byte // for values of members
}

// member is a member that is added to a log which does not have it.
type member struct {
	name  string
	value *template.Template
}

var _ httpsink.Dialect = (*logs)(nil)

func newLogs(s *settings) (*logs, error) {
	l := &logs{message: s.MessageField}
	for _, m := range []struct{ name, text string }{
		{"service", s.Service}, {"ddsource", s.Source}, {"hostname", s.Hostname}, {"ddtags", s.Tags},
	} {
		if m.text == "" {
			continue
		}
		t, err := common.ParseTemplate(m.name, m.text, nil)
		if err != nil {
			return nil, err
		}
		l.members = append(l.members, member{m.name, t})
	}
	return l, nil
}

// Begin implements httpsink.Dialect.
func (l *logs) Begin(ctx context.Context) { l.limit.Begin(ctx) }

// Encode implements httpsink.Dialect.
func (l *logs) Encode(dst []byte, r *record.Record, _ common.RecordID) (item httpsink.Item, err error) {
	if r.After.IsNone() {
		return item, errors.New("cannot send the record: it has no payload after the change: remove deletes with the " +
			"processor filter")
	}
	var more []httpsink.Member
	if at, known := httpsink.TimeOf(r); known {
		milliseconds := strconv.FormatInt(at.UnixMilli(), 10) // the precision of the server
		more = append(more, httpsink.Member{Name: "timestamp", Text: milliseconds, Number: true})
	}
	for _, m := range l.members {
		if l.buf, err = m.value.Append(&l.limit, l.buf[:0], r); err != nil {
			return item, fmt.Errorf("cannot execute the template of %s: %w", m.name, err)
		}
		if len(l.buf) > 0 {
			more = append(more, httpsink.Member{Name: m.name, Text: string(l.buf)})
		}
	}
	item.Text, err = httpsink.AppendObject(dst, r.After, l.message, more...)
	return item, err
}

// Body implements httpsink.Dialect.
func (*logs) Body(items []httpsink.Item) []byte { return httpsink.Concat(items, "[", ",", "]") }

// Outcomes implements httpsink.Dialect.
func (*logs) Outcomes(r *httpclient.Response, n int) ([]error, error) { return httpsink.Accepted(r, n) }
