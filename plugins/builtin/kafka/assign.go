package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// begin records the start of partitions that neither the position nor the group knows. A partition created later starts
// with its first message.
func (s *Source) begin(ctx context.Context) error {
	var topics []string
	for _, topic := range s.settings.Topics {
		if s.next[topic] == nil && (s.whole || !s.resumed) {
			topics = append(topics, topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	admin := kadm.NewClient(s.client)
	list := admin.ListCommittedOffsets
	if s.settings.ReadFromBeginning {
		list = admin.ListStartOffsets
	}
	offsets, err := list(ctx, topics...)
	if err != nil {
		return sdk.Unavailable(fmt.Errorf("cannot list the offsets of topics %v: %w", topics, err))
	}
	offsets.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			s.first.set(o.Topic, o.Partition, o.Offset)
		}
	})
	return nil
}

// assign decides the start of the partitions assigned to this member of the group. offsets holds the group's committed
// offsets.
func (s *Source) assign(
	ctx context.Context, offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	topics := make([]string, 0, len(offsets))
	for topic := range offsets {
		topics = append(topics, topic)
	}
	if len(topics) == 0 {
		return offsets, nil
	}
	// The context keeps kadm from answering from the client's cache: a topic that was just recreated has another id.
	ctx = kadm.WithAuthorizedOps(ctx)
	admin := kadm.NewClient(s.client)
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	details, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, partitions := range offsets {
		recreated, other := s.checkID(topic, details[topic].ID)
		for number, committed := range partitions {
			start, ok := starts.Lookup(topic, number)
			end, known := ends.Lookup(topic, number)
			err := errors.Join(start.Err, end.Err)
			if err == nil && (!ok || !known) {
				err = kerr.UnknownTopicOrPartition
			}
			if err != nil {
				return nil, fmt.Errorf("cannot get the offsets of partition %d of topic %q: %w", number, topic, err)
			}
			p := s.partition(topic, number)
			p.committed, p.end = committed.EpochOffset().Offset, end.Offset
			if recreated {
				p.committed = -1 // the committed offset belongs to the former topic
			}
			offset, err := s.place(p, committed, start.Offset)
			if err = cmp.Or(other, err); err != nil { // until the source fails, nothing is read or committed
				s.fail(err)
				p.assigned = false
			}
			partitions[number] = offset
		}
	}
	s.kick.Notify() // partitions without an offset now have one
	return offsets, nil
}

// checkID compares the id of a topic with the id of the topic read before. If the settings say to continue, a recreated
// topic is read from its oldest message. The caller holds mu.
func (s *Source) checkID(topic string, id kadm.TopicID) (recreated bool, err error) {
	if id == (kadm.TopicID{}) {
		return false, nil
	}
	was, ok := s.ids[topic]
	if recreated = ok && was != id.String(); recreated {
		err := s.gap("messages of topic "+topic,
			fmt.Errorf("topic %q was recreated: its id was %s and is now %s, so it has other messages", topic, was, id))
		if err != nil {
			return true, err
		}
		delete(s.next, topic)
	}
	s.ids[topic] = id.String()
	return recreated, nil
}

func (s *state) partition(topic string, number int32) *partition {
	tp := topicPartition{topic, number}
	if s.parts[tp] == nil {
		s.parts[tp] = &partition{topicPartition: tp}
	}
	p := s.parts[tp]
	p.assigned, p.revoked, p.epoch = true, false, -1
	p.assignment++
	return p
}

// place decides the start of a partition: the offset of the group or the offset of this source, whichever is larger. An
// error describes the messages missing there. The caller holds mu.
func (s *Source) place(p *partition, committed kgo.Offset, start int64) (kgo.Offset, error) {
	at, ours := s.next.get(p.topic, p.number)
	offset := kgo.NewOffset().At(at)
	known := ours || p.committed >= 0
	switch {
	case !known:
		at = s.origin(p, start)
		offset = kgo.NewOffset().At(at)
	case !ours, p.committed >= at:
		at, offset = p.committed, committed
	}
	var err error
	if known && (at < start || at > p.end) {
		err = s.gap(behind(p.topic, p.number, at), missing(p, at, start))
		at, offset = start, kgo.NewOffset().At(start)
	}
	if !ours { // otherwise records may be outstanding
		p.delivered, p.acked = at, at
	}
	p.seen = at
	s.next.set(p.topic, p.number, at)
	return offset, err
}

// origin returns the start of a partition for which neither the group nor this source has an offset.
func (s *Source) origin(p *partition, start int64) int64 {
	if at, ok := s.first.get(p.topic, p.number); ok {
		return max(at, start)
	}
	if s.resumed {
		s.log.Warn("neither the position nor the group has an offset of this partition, so the source reads it "+
			"from its oldest message", "topic", p.topic, "partition", p.number)
	}
	return start
}
