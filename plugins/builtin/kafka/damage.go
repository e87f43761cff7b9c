package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// attempts counts the consecutive failures to read an offset.
type attempts struct {
	offset int64
	n      int
}

// maxAttempts is the number of times that undecodable messages are fetched: the first copies may have been damaged in
// transit.
const maxAttempts = 3

// isDamage reports whether an error of a fetch concerns messages that arrived but cannot be decoded: neither the broker
// nor the network has failed.
func isDamage(err error) bool {
	return err != nil && !errors.As(err, new(*kerr.Error)) && !kgo.IsRetryableBrokerErr(err) &&
		!errors.Is(err, kgo.ErrClientClosed)
}

// damaged handles undecodable messages at the current offset of a partition. Their number is unknown, so it leaves out
// one offset at a time.
func (s *Source) damaged(topic string, number int32, err error) {
	at := topicPartition{topic, number}
	s.mu.Lock()
	p := s.parts[at]
	if p == nil || !p.assigned || p.revoked {
		s.mu.Unlock()
		return
	}
	offset := p.seen
	s.mu.Unlock()
	if s.attempts == nil {
		s.attempts = map[topicPartition]attempts{}
	}
	a := s.attempts[at]
	again := a.n >= maxAttempts && offset == a.offset+1 // after one that was left out
	if offset != a.offset && !again {
		a = attempts{offset: offset}
	}
	a.offset = offset
	if a.n++; a.n < maxAttempts {
		s.attempts[at] = a
		s.log.Warn("cannot decode messages, fetching them again", "topic", topic, "partition", number, "offset", offset,
			"err", err)
		return
	}
	s.attempts[at] = a
	s.leaveOut(topic, number, offset+1, err)
}

// leaveOut resumes reading a partition at the offset next.
func (s *Source) leaveOut(topic string, number int32, next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[topicPartition{topic, number}]
	if p == nil || !p.assigned || p.revoked {
		return
	}
	what := fmt.Sprintf("messages of partition %d of topic %s from offset %d to %d", number, topic, p.seen, next-1)
	if next == p.seen+1 {
		what = fmt.Sprintf("message of partition %d of topic %s at offset %d", number, topic, p.seen)
	}
	if s.skips.Add(what, err) {
		s.log.Warn("cannot read messages, skipping them", "what", what, "err", err)
	}
	p.seen = next
	s.next.set(topic, number, next)
	s.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {number: {Epoch: -1, Offset: next}}})
}
