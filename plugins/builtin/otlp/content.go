package otlp

import (
	"math"
	"strconv"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/record"
)

// content creates the records of a request, one for each item. An item that cannot become a record is rejected.
type content struct {
	signal   *signal
	sections []section
	next     int // index of the next item of the first section
	left     int // items of all sections
	decoder  decoder
	metadata record.Metadata // of all records
	inBody   bool            // resource and scope are part of the payload

	began bool     // the fields below are those of the first section
	heads []string // values of keyResource and keyScope
	types []typed

	rejected int64
	reason   error // of the first rejected item
}

// section is a sequence of items with the same resource and scope, and, if they are data points, of the same metric.
type section struct {
	head  *head
	count int
	// item returns an item as a payload, and its time in Unix nanoseconds; 0 if it has none.
	item func(d *decoder, i int) (object, uint64, error)
}

// newContent returns the content of a decoded request. The metadata belongs to it.
func newContent(s *signal, data proto.Message, metadata record.Metadata, inBody bool) *content {
	c := &content{signal: s, metadata: metadata, inBody: inBody}
	switch data := data.(type) {
	case *logs.LogsData:
		for _, r := range data.GetResourceLogs() {
			for _, sc := range r.GetScopeLogs() {
				c.add(&head{r.GetResource(), r.GetSchemaUrl(), sc.GetScope(), sc.GetSchemaUrl()},
					len(sc.GetLogRecords()),
					logItems(sc.GetLogRecords()))
			}
		}
	case *trace.TracesData:
		for _, r := range data.GetResourceSpans() {
			for _, sc := range r.GetScopeSpans() {
				c.add(&head{r.GetResource(), r.GetSchemaUrl(), sc.GetScope(), sc.GetSchemaUrl()}, len(sc.GetSpans()),
					spanItems(sc.GetSpans()))
			}
		}
	case *metrics.MetricsData:
		for _, r := range data.GetResourceMetrics() {
			for _, sc := range r.GetScopeMetrics() {
				h := &head{r.GetResource(), r.GetSchemaUrl(), sc.GetScope(), sc.GetSchemaUrl()}
				for _, m := range sc.GetMetrics() {
					c.addMetric(h, m)
				}
			}
		}
	}
	return c
}

func (c *content) add(h *head, count int, item func(*decoder, int) (object, uint64, error)) {
	if count > 0 {
		c.sections = append(c.sections, section{h, count, item})
		c.left += count
	}
}

func logItems(all []*logs.LogRecord) func(*decoder, int) (object, uint64, error) {
	return func(d *decoder, i int) (object, uint64, error) {
		at := all[i].GetTimeUnixNano()
		if at == 0 {
			at = all[i].GetObservedTimeUnixNano()
		}
		o, err := d.logRecord(all[i])
		return o, at, err
	}
}

func spanItems(all []*trace.Span) func(*decoder, int) (object, uint64, error) {
	return func(d *decoder, i int) (object, uint64, error) {
		o, err := d.span(all[i])
		return o, all[i].GetStartTimeUnixNano(), err
	}
}

func (c *content) addMetric(h *head, m *metrics.Metric) {
	switch data := m.GetData().(type) {
	case *metrics.Metric_Gauge:
		addPoints(c, h, m, data.Gauge.GetDataPoints(), (*decoder).number)
	case *metrics.Metric_Sum:
		addPoints(c, h, m, data.Sum.GetDataPoints(), (*decoder).number)
	case *metrics.Metric_Histogram:
		addPoints(c, h, m, data.Histogram.GetDataPoints(), (*decoder).histogram)
	case *metrics.Metric_ExponentialHistogram:
		addPoints(c, h, m, data.ExponentialHistogram.GetDataPoints(), (*decoder).exponentialHistogram)
	case *metrics.Metric_Summary:
		addPoints(c, h, m, data.Summary.GetDataPoints(), (*decoder).summary)
	}
}

// addPoints adds the data points of a metric.
func addPoints[P point](c *content, h *head, m *metrics.Metric, all []P, decode func(*decoder, object, P) error) {
	c.add(h, len(all), func(d *decoder, i int) (object, uint64, error) {
		o, err := d.metric(m)
		if err == nil {
			err = decode(d, o, all[i])
		}
		return o, all[i].GetTimeUnixNano(), err
	})
}

// Left implements common.Content.
func (c *content) Left() int { return c.left }

// Next implements common.Content.
func (c *content) Next(n int) ([]record.Record, error) {
	n = min(n, c.left)
	const own = 5 // fields of metadata that a record has for itself
	fields := len(c.metadata) + own
	arena := record.NewArena(n, fields, len("1700000000000000000"))
	records := make([]record.Record, 0, n)
	for range n {
		r, err := c.record(arena, fields)
		if err != nil {
			c.rejected++
			if c.reason == nil {
				c.reason = err
			}
		} else {
			records = append(records, r)
		}
		c.left--
		if c.next++; c.next == c.sections[0].count {
			c.sections[0] = section{}
			c.sections, c.next, c.began = c.sections[1:], 0, false
		}
	}
	return records, nil
}

// record creates the record of the next item.
func (c *content) record(arena *record.Arena, fields int) (r record.Record, err error) {
	s := &c.sections[0]
	if !c.began {
		if err := c.begin(s.head); err != nil {
			return r, err
		}
		c.began = true
	}
	c.decoder.path, c.decoder.types = c.decoder.path[:0], nil
	payload, at, err := s.item(&c.decoder, c.next)
	if err != nil {
		return r, err
	}
	m := append(arena.Metadata(fields), c.metadata...)
	if c.inBody {
		if err := c.addHead(payload, s.head); err != nil {
			return r, err
		}
	} else {
		for i, key := range []string{keyResource, keyScope} {
			if c.heads[i] != "" {
				m.Add(key, c.heads[i])
			}
		}
	}
	types, err := typesText(c.types, c.decoder.types)
	if err != nil {
		return r, err
	}
	if types != "" {
		m.Add(keyTypes, types)
	}
	if at == 0 || at > math.MaxInt64 {
		at = uint64(time.Now().UnixNano())
	}
	m.Add(record.KeyCreatedAt, arena.Int(int64(at)))
	m.Sort()
	return record.Record{Operation: record.OperationCreate, Metadata: m, After: record.Structured(payload)}, nil
}

// addHead adds resource and scope to a payload. Every record has its own copy.
func (c *content) addHead(payload object, h *head) error {
	res, err := c.decoder.resourceObject(h)
	if err != nil {
		return err
	}
	scope, err := c.decoder.scopeObject(h)
	if res != nil {
		payload["resource"] = res
	}
	if scope != nil {
		payload["scope"] = scope
	}
	return err
}

// begin encodes resource and scope of a section, unless they are part of each payload.
func (c *content) begin(h *head) error {
	c.heads, c.types = []string{"", ""}, nil
	if c.inBody {
		return nil
	}
	payload := object{}
	c.decoder.path, c.decoder.types = c.decoder.path[:0], nil
	if err := c.addHead(payload, h); err != nil {
		return err
	}
	for i, key := range []string{"resource", "scope"} {
		if o, ok := payload[key]; ok {
			text, err := record.AppendValue(nil, o)
			if err != nil {
				return err
			}
			c.heads[i] = string(text)
		}
	}
	c.types = c.decoder.types
	return nil
}

// whole is the content of a request that is one record.
type whole struct {
	left     int
	body     []byte
	metadata record.Metadata
}

// Left implements common.Content.
func (w *whole) Left() int { return w.left }

// Next implements common.Content.
func (w *whole) Next(int) ([]record.Record, error) {
	w.left = 0
	m := w.metadata
	m.Set(record.KeyCreatedAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	return []record.Record{{Operation: record.OperationCreate, Metadata: m, After: record.Raw(w.body)}}, nil
}
