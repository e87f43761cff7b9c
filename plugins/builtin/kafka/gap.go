package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

const howToGoOn = "to read from the oldest message, set gap to continue"

// behind describes missing messages.
func behind(topic string, number int32, offset int64) string {
	return fmt.Sprintf("messages of partition %d of topic %s from offset %d", number, topic, offset)
}

// missing describes the missing messages of a partition whose start is out of range.
func missing(p *partition, at, start int64) error {
	if at < start {
		return fmt.Errorf("%d messages of partition %d of topic %q were removed before they were read: offsets %d "+
			"to %d, and the oldest offset is now %d; increase the retention of the topic to longer than the "+
			"source can be stopped", start-at, p.number,
			p.topic, at, start-1, start)
	}
	return fmt.Errorf("partition %d of topic %q ends at offset %d, but the source has read it up to %d: the topic "+
		"was recreated, or its leader lost messages; it begins at offset %d", p.number, p.topic, p.end,
		at, start)
}

// gap returns the error for messages that are missing. With gap: continue it returns nil, and the status names them.
func (s *Source) gap(skipped string, missing error) error {
	if s.settings.Gap == "continue" {
		s.log.Warn("messages are missing, continuing with the oldest message", "err", missing)
		s.skips.Add(skipped, missing)
		return nil
	}
	return fmt.Errorf("cannot continue: %w; %s", missing, howToGoOn)
}

// truncated reports messages that were read and that the new leader has lost. The client has gone back to the offset at
// which that leader's log diverges.
func (s *Source) truncated(loss *kgo.ErrDataLoss) error {
	err := fmt.Errorf("the source has read partition %d of topic %q up to offset %d, but its leader "+
		"has lost the messages from %d: after an unclean leader election, or because the topic was "+
		"recreated", loss.Partition, loss.Topic, loss.ConsumedTo,
		loss.ResetTo)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[topicPartition{loss.Topic, loss.Partition}]; p != nil && s.settings.Gap == "continue" {
		p.seen = loss.ResetTo
	}
	return s.gap(behind(loss.Topic, loss.Partition, loss.ResetTo), err)
}

// outOfRange reports the missing messages if the current offset of a partition is out of range.
func (s *Source) outOfRange(topic string, number int32) error {
	s.mu.Lock()
	p, ok := s.parts[topicPartition{topic, number}]
	at := int64(-1)
	if ok {
		at = p.seen
	}
	assigned := ok && p.assigned
	s.mu.Unlock()
	if !assigned {
		return nil // assigned to another member now
	}
	ctx, cancel := context.WithTimeout(s.broken, reachTimeout)
	defer cancel()
	starts, err := kadm.NewClient(s.client).ListStartOffsets(ctx, topic)
	start, known := starts.Lookup(topic, number)
	if err = errors.Join(err, start.Err); err != nil || !known {
		return fmt.Errorf("cannot read partition %d of topic %q at offset %d, which is out of range: %w", number, topic,
			at, err)
	}
	if at >= start.Offset {
		return fmt.Errorf("cannot read partition %d of topic %q at offset %d, which is out of range: the "+
			"partition begins at %d",
			number, topic, at, start.Offset)
	}
	if err := s.gap(behind(topic, number, at), missing(p, at, start.Offset)); err != nil {
		return err
	}
	// When the source is opened again, it reads the partition from the oldest message.
	return sdk.Unavailable(fmt.Errorf("the source must resume partition %d of topic %q from its oldest message",
		number, topic))
}
