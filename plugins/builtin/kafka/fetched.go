package kafka

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/record"
)

// fetched holds messages of a partition that the client returned and Read has not returned yet.
type fetched struct {
	partition  *partition
	assignment int // of the partition, when the client returned them
	messages   []*kgo.Record
}

// poll waits for messages and takes all that the client has. The client fetches the next ones while Read returns these.
func (s *Source) poll(ctx context.Context) {
	fetches := s.client.PollFetches(ctx)
	s.bound.Release() // all earlier messages are records by now
	s.failures = fetches.Errors()
	s.mu.Lock()
	defer s.mu.Unlock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		p := s.parts[topicPartition{f.Topic, f.Partition}]
		if p == nil || !p.assigned || p.revoked {
			return
		}
		p.end = max(p.end, f.LastStableOffset)
		if len(f.Records) > 0 {
			s.fetched = append(s.fetched, fetched{p, p.assignment, f.Records})
		}
	})
}

// take turns the next messages into records, skipping partitions that are no longer assigned.
func (s *Source) take() (records []record.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for left := pollRecords; left > 0 && len(s.fetched) > 0; {
		f := &s.fetched[0]
		messages := f.messages[:min(len(f.messages), left)]
		f.messages = f.messages[len(messages):]
		p, current := f.partition, f.partition.assigned && !f.partition.revoked && f.partition.assignment == f.assignment
		if len(f.messages) == 0 || !current {
			*f = fetched{}
			s.fetched = s.fetched[1:]
		}
		if !current {
			continue
		}
		if records == nil {
			records = make([]record.Record, 0, min(pollRecords, len(messages)+s.waiting()))
		}
		if records, err = s.takePartition(records, p, messages); err != nil {
			return nil, err
		}
		left -= len(messages)
	}
	return records, nil
}

// waiting returns the number of messages fetched and not taken.
func (s *Source) waiting() (n int) {
	for i := range s.fetched {
		n += len(s.fetched[i].messages)
	}
	return n
}

// takePartition appends the new messages of a partition. The caller holds mu.
func (s *Source) takePartition(records []record.Record, p *partition, messages []*kgo.Record) ([]record.Record, error) {
	run, err := newRun(s.group, s.next, s.ids, p.topic, p.number, len(messages))
	if err != nil {
		return records, err
	}
	const textBytes = 40
	arena, all := record.NewArena(len(messages), arenaFields(messages[0]), textBytes), newLastMetadata(p)
	for _, m := range messages {
		if m.Offset < p.seen { // fetched for a former assignment of the same partition
			continue
		}
		p.seen, p.epoch = m.Offset+1, m.LeaderEpoch
		if m.Attrs.IsControl() {
			continue
		}
		p.delivered, p.newest = m.Offset+1, m.Timestamp
		records = append(records, recordOf(m, run.position(m.Offset), s.settings.Tombstones, all.metadata(m, arena)))
	}
	for _, m := range messages {
		m.Recycle() // records have copied all they need
	}
	s.next.set(p.topic, p.number, p.seen)
	return records, nil
}

// arenaFields returns the number of metadata fields to allocate per message. Most messages have as many headers as the
// first, but a first one with very many says nothing about the others.
func arenaFields(first *kgo.Record) int { return messageFields + min(len(first.Headers), 16) }

const (
	headerPrefix  = "kafka.header."
	messageFields = 6 // metadata fields without headers
)

// lastMetadata holds the metadata of the last message of a partition, without headers: the next message differs little.
type lastMetadata struct {
	fields [messageFields]record.Field // sorted by key, all after the header fields
	time   time.Time
}

func newLastMetadata(p *partition) *lastMetadata {
	return &lastMetadata{fields: [...]record.Field{
		{Key: "kafka.offset"},
		{Key: "kafka.partition", Value: strconv.Itoa(int(p.number))},
		{Key: "kafka.timestamp"},
		{Key: "kafka.topic", Value: p.topic},
		{Key: record.KeyCollection, Value: p.topic},
		{Key: record.KeyCreatedAt},
	}}
}

// metadata returns the metadata of the next message.
func (c *lastMetadata) metadata(m *kgo.Record, arena *record.Arena) record.Metadata {
	offset, millis, nanos := &c.fields[0].Value, &c.fields[2].Value, &c.fields[5].Value
	if *offset == "" || !m.Timestamp.Equal(c.time) {
		c.time, *millis, *nanos = m.Timestamp, arena.Int(m.Timestamp.UnixMilli()), arena.Int(m.Timestamp.UnixNano())
	}
	*offset = arena.Int(m.Offset)
	fields, parent, state := messageFields+len(m.Headers), "", ""
	for _, h := range m.Headers {
		switch h.Key {
		case record.KeyTraceParent:
			fields += 2
			parent = string(h.Value)
		case record.KeyTraceState:
			state = string(h.Value)
		}
	}
	md := arena.Metadata(fields)
	for _, h := range m.Headers {
		md.Add(headerPrefix+h.Key, arena.String(h.Value))
	}
	md.SortRepeated()
	md = append(md, c.fields[:]...)
	md.SetTraceContext(parent, state)
	return md
}

// recordOf converts a message to a record. With tombstones, a message without a value is a delete.
func recordOf(m *kgo.Record, pos record.Position, tombstones bool, metadata record.Metadata) record.Record {
	r := record.Record{Position: pos, Operation: record.OperationCreate, Metadata: metadata}
	if m.Key != nil {
		r.Key = record.Raw(m.Key)
	}
	if m.Value != nil {
		r.After = record.Raw(m.Value)
	} else if tombstones {
		r.Operation = record.OperationDelete
	}
	return r
}

// Ack schedules the offsets of the records for the next commit to the group.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var partition []byte
	for _, pos := range slices.Backward(positions) {
		if partition != nil && bytes.HasPrefix(pos, partition) {
			continue // a later offset was taken
		}
		p, err := parsePosition(pos)
		if err != nil {
			return err
		}
		s.acked(topicPartition{p.Topic, p.Partition}, p.Offset+1)
		partition = prefixOf(pos)
	}
	if s.uncommitted += len(positions); s.uncommitted >= max(1, s.settings.CommitOffsetsSize) {
		s.kick.Notify()
	}
	return nil
}

// messagePool reuses the memory of taken messages for later fetches. It implements kgo.PoolRecords.
type messagePool struct{ pool sync.Pool }

// GetRecords returns memory for n messages.
func (p *messagePool) GetRecords(n int) []kgo.Record {
	if s, ok := p.pool.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return (*s)[:n]
	}
	return make([]kgo.Record, n)
}

// PutRecords returns memory to the pool.
func (p *messagePool) PutRecords(s []kgo.Record) { p.pool.Put(&s) }
