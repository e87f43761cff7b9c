package nats

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// base returns the common prefix of the consumer names of this source. Each session creates its own consumer, so
// that messages arrive in order from the start sequence.
func (s *sourceSettings) base(ctx context.Context) string {
	return cmp.Or(s.Consumer, "conduit-"+id(ctx)) + "-"
}

// created is the name suffix of the consumer that marks the start of reading.
const created = "created"

// ackWait is the time after which the server delivers an unacknowledged message again. It covers lost acknowledgements.
const ackWait = time.Minute

// config returns the configuration of a consumer that delivers messages after the sequence number behind; 0: all
// messages.
func (s *sourceSettings) config(
	name string, behind uint64, retention jetstream.RetentionPolicy,
) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxAckPending: s.Maximum, MaxDeliver: -1,
		FilterSubjects: s.Subjects, DeliverPolicy: jetstream.DeliverAllPolicy, Description: "made by conduit"}
	if behind > 0 && retention != jetstream.WorkQueuePolicy { // a work queue has only unacknowledged messages
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, behind+1
	}
	return c
}

// use connects, and calls do with the stream of the settings.
func (s *sourceSettings) use(
	ctx context.Context, do func(context.Context, jetstream.JetStream, jetstream.Stream) error,
) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return err
	}
	stream, err := s.stream(ctx, js)
	if err != nil {
		return err
	}
	return do(ctx, js, stream)
}

func (s *sourceSettings) stream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, s.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, deniedError{fmt.Errorf("stream %q does not exist", s.Stream)}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot query stream %q: %w", s.Stream, err)
	}
	return stream, nil
}

// make creates the consumer that marks the start of reading.
func (s *sourceSettings) make(ctx context.Context, values map[string]string) error {
	if s.parse(values) != nil || s.Type == "core" {
		return nil
	}
	return s.use(ctx, func(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream) error {
		if err := s.removeBut(ctx, stream); err != nil {
			return err
		}
		c := s.config(s.base(ctx)+created, 0, stream.CachedInfo().Config.Retention)
		if s.Start == "newest" {
			c.DeliverPolicy = jetstream.DeliverNewPolicy
		}
		_, err := js.CreateConsumer(ctx, s.Stream, c)
		return s.failed("create a consumer of", err)
	})
}

func (s *sourceSettings) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot %s stream %q: %w", doing, s.Stream, err)
}

// remove removes the consumers of this source.
func (s *sourceSettings) remove(ctx context.Context) error {
	err := s.use(ctx, func(ctx context.Context, _ jetstream.JetStream, stream jetstream.Stream) error {
		return s.removeBut(ctx, stream)
	})
	if errors.As(err, new(deniedError)) && strings.Contains(err.Error(), "does not exist") {
		return nil // the consumers were removed with the stream
	}
	return err
}

// removeBut removes all consumers of this source except kept.
func (s *sourceSettings) removeBut(ctx context.Context, stream jetstream.Stream, kept ...string) error {
	base := s.base(ctx)
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if !strings.HasPrefix(name, base) || slices.Contains(kept, name) {
			continue
		}
		if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return s.failed("remove a consumer of", err)
		}
	}
	return s.failed("list the consumers of", names.Err())
}

// consumer creates the consumer of a session and then removes those of earlier sessions. In the opposite order, a
// stream with interest retention would lose messages. A work queue accepts only one consumer, so there the removal
// comes first.
func (s *sourceSettings) consumer(
	ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, behind uint64, noted bool,
) (jetstream.Consumer, error) {
	word := make([]byte, 8)
	_, _ = rand.Read(word) // it never fails
	retention := stream.CachedInfo().Config.Retention
	config := s.config(s.base(ctx)+hex.EncodeToString(word), behind, retention)
	if retention == jetstream.WorkQueuePolicy {
		if err := s.removeBut(ctx, stream); err != nil {
			return nil, err
		}
	}
	c, err := js.CreateConsumer(ctx, s.Stream, config)
	if err != nil {
		return nil, s.failed("create a consumer of", err)
	}
	kept := []string{config.Durable}
	if noted {
		kept = append(kept, s.base(ctx)+created)
	}
	return c, s.removeBut(ctx, stream, kept...)
}
