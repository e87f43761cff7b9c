package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// gapError reports missed messages.
type gapError struct{ error }

// errRecreated ends a connection, so that the next one begins with the oldest message.
var errRecreated = errors.New("the stream was recreated")

// follows checks that m follows the last received message of the stream. again is true if m was received before; then
// follows has acknowledged it.
func (s *Source) follows(ctx context.Context, m *message, first bool) (again bool, err error) {
	switch {
	case s.last == nil:
		return false, nil
	case first && m.offset == s.last.Offset && sumOf(m.Body) != s.last.Sum:
		return false, s.recreated(fmt.Errorf("the message at offset %d is another one than the source has read",
			m.offset))
	case first && m.offset < s.last.Offset:
		return false, s.recreated(fmt.Errorf("it continues with offset %d, and the source has read up to %d", m.offset,
			s.last.Offset))
	case m.offset <= s.last.Offset:
		m.acknowledge(1)
		return true, nil
	case m.offset == s.last.Offset+1 && !first:
		return false, nil
	}
	return false, s.jump(ctx, m, first)
}

// jump detects messages that were removed before they were read. Offsets also jump where the stream stores data of
// its own, so jump queries the oldest message, at most ten times per second after the first message of a connection.
func (s *Source) jump(ctx context.Context, m *message, first bool) error {
	const pause = 100 * time.Millisecond
	if !first && time.Since(s.asked) < pause {
		return nil
	}
	oldest, err := s.oldest(ctx, m.conn)
	if err != nil {
		return err
	}
	s.asked = time.Now()
	switch {
	case oldest > s.last.Offset+1:
		end := min(oldest, m.offset)
		return s.missing(fmt.Errorf("up to %d messages of stream %q, from offset %d to %d, were removed before they "+
			"were read: increase the retention of the stream", end-s.last.Offset-1, s.settings.Queue, s.last.Offset+1,
			end-1))
	case first && oldest <= s.last.Offset:
		return s.recreated(fmt.Errorf("it has no message at offset %d, which the source has read", s.last.Offset))
	}
	return nil
}

// vanished returns the reason why a stream does not send the last message that the source has read.
func (s *Source) vanished(ctx context.Context, c *connection) error {
	oldest, err := s.oldest(ctx, c)
	if err != nil {
		return fmt.Errorf("the server sends nothing from offset %d of the stream on, which the source has read: %w",
			s.last.Offset, err)
	}
	return s.recreated(fmt.Errorf("its oldest message has offset %d, and none follows offset %d, which the source has "+
		"read", oldest, s.last.Offset))
}

// oldest returns the offset of the oldest message of the stream.
func (s *Source) oldest(ctx context.Context, c *connection) (uint64, error) {
	ch, err := c.Channel()
	if err != nil {
		return 0, c.explain(err)
	}
	defer func() { _ = ch.Close() }()
	if err := ch.Qos(1, 0, false); err != nil {
		return 0, c.explain(err)
	}
	const chunk = 1 << 16 // messages that the stream may send at once
	c.socket.checker.Allow(chunk)
	messages, err := ch.Consume(s.settings.Queue, "", false, false, false, false, amqp.Table{offsetHeader: "first"})
	if err != nil {
		return 0, c.explain(s.settings.explain(err))
	}
	late := time.NewTimer(s.settings.Timeout)
	defer late.Stop()
	select {
	case m := <-messages:
		if offset, ok := m.Headers[offsetHeader].(int64); ok {
			return uint64(offset), nil
		}
	case <-late.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("cannot query the oldest message of stream %q", s.settings.Queue)
}

// missing returns the error for missed messages; nil if the settings allow gaps.
func (s *Source) missing(err error) error {
	if s.settings.Gap == "continue" {
		s.log.Error("messages are missing, continuing with the oldest message", "err", err)
		s.skips.Add(fmt.Sprintf("messages of stream %s after offset %d", s.settings.Queue, s.last.Offset), err)
		return nil
	}
	return gapError{fmt.Errorf("messages were missed: %w. To continue with the remaining messages, set gap to "+
		"continue", err)}
}

// recreated returns the error for a stream that is not the one that the source has read, with the reason. If the
// settings allow gaps, the next connection begins with the oldest message.
func (s *Source) recreated(reason error) error {
	if err := s.missing(fmt.Errorf("stream %q was recreated, or lost messages: %w", s.settings.Queue,
		reason)); err != nil {
		return err
	}
	s.last, s.begin = nil, "first"
	return errRecreated
}
