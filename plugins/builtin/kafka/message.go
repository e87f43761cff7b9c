package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/record"
)

// messages converts records to messages. If a record cannot be converted, it returns the messages before it, and the
// error.
func (d *Destination) messages(records []record.Record) (messages []*kgo.Record, err error) {
	all := make([]kgo.Record, len(records))
	messages = make([]*kgo.Record, 0, len(records))
	values := make([]byte, 0, min(len(records)*d.valueBytes, reservedBytes))
	for i := range records {
		if values, err = d.message(&all[i], &records[i], values); err != nil {
			return messages, err
		}
		messages = append(messages, &all[i])
	}
	if len(records) > 0 {
		d.valueBytes = len(values)/len(records) + 1
	}
	return messages, nil
}

// reservedBytes is the maximum number of bytes reserved for values.
const reservedBytes = 1 << 20

// message sets m to the message of a record, and appends its value to values.
func (d *Destination) message(m *kgo.Record, r *record.Record, values []byte) (_ []byte, err error) {
	if m.Topic, err = d.topic.execute(&d.timeLimit, r); err != nil {
		return values, fmt.Errorf("cannot execute the template of topic: %w", err)
	}
	if m.Topic == "" {
		return values, fmt.Errorf("topic not found on record %q using template %q", abbreviate(r.Position),
			d.settings.Topic)
	}
	if d.topic.perRecord() && !isTopic(m.Topic) {
		return values, fmt.Errorf("cannot write to topic %q: the name is invalid", m.Topic)
	}
	if m.Partition, err = d.partitionOf(r); err != nil {
		return values, err
	}
	if m.Key, err = d.key(r); err != nil {
		return values, err
	}
	if !d.settings.Tombstones || r.Operation != record.OperationDelete {
		before := len(values)
		if values, err = d.format(values, r); err != nil {
			return values, fmt.Errorf("cannot encode the record: %w", err)
		}
		if len(values) > before { // otherwise it has no value
			m.Value = values[before:len(values):len(values)]
		}
	}
	if d.settings.Headers {
		m.Headers = headers(r.Metadata)
	}
	m.Headers = withTraceContext(m.Headers, r.Metadata)
	if d.settings.Timestamp == "record" {
		m.Timestamp = createdAt(r.Metadata)
	}
	return values, nil
}

// byKey means that the partitioner chooses the partition of a message.
const byKey = -1

func (d *Destination) partitionOf(r *record.Record) (int32, error) {
	s, err := d.partition.execute(&d.timeLimit, r)
	if err != nil {
		return 0, fmt.Errorf("cannot execute the template of partition: %w", err)
	}
	if s = strings.TrimSpace(s); s == "" {
		return byKey, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("cannot write to partition %q: it must be a number from 0", s)
	}
	return int32(n), nil
}

func (d *Destination) key(r *record.Record) ([]byte, error) {
	if r.Key.IsNone() {
		return nil, nil
	}
	if raw, ok := r.Key.Raw(); ok {
		return raw, nil
	}
	key, err := r.Key.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the key: %w", err)
	}
	return key, nil
}

func headers(metadata record.Metadata) (all []kgo.RecordHeader) {
	for name, value := range metadata.Repeated(headerPrefix) {
		all = append(all, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return all
}

// withTraceContext returns headers with the trace context of a record, if it has one, in place of another one.
func withTraceContext(all []kgo.RecordHeader, metadata record.Metadata) []kgo.RecordHeader {
	parent, state := metadata.TraceContext()
	if parent == "" {
		return all
	}
	all = slices.DeleteFunc(all, func(h kgo.RecordHeader) bool {
		return h.Key == record.KeyTraceParent || h.Key == record.KeyTraceState
	})
	all = append(all, kgo.RecordHeader{Key: record.KeyTraceParent, Value: []byte(parent)})
	if state != "" {
		all = append(all, kgo.RecordHeader{Key: record.KeyTraceState, Value: []byte(state)})
	}
	return all
}

// createdAt returns the creation time of a record, or the zero time, which stands for the time of writing.
func createdAt(metadata record.Metadata) time.Time {
	nanos, err := strconv.ParseInt(metadata.Get(record.KeyCreatedAt), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
