package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec/texts"
)

type destinationSettings struct {
	clientSettings
	// Topic, or a Go template for the name.
	Topic string `json:"topic" template:"true" default:"{{ index .Metadata \"opencdc.collection\" }}"`
	// Number of replicas that must have a message before it counts as written. With less than all, messages can be
	// lost, repeated and reordered.
	Acks string `json:"acks" default:"all" validate:"inclusion=none|one|all"`
	// Compression of batches, if the brokers support it.
	Compression string `json:"compression" default:"snappy" validate:"inclusion=none|gzip|snappy|lz4|zstd"`
	// Maximum size of a batch of messages in bytes, before compression. It must not exceed max.message.bytes of the
	// topic.
	BatchBytes int32 `json:"batchBytes" default:"1000012" validate:"gt=0"`
	// Maximum time for attempts to write a message. After it the pipeline fails. 0: no limit.
	DeliveryTimeout time.Duration `json:"deliveryTimeout" default:"0" validate:"gt=-1"`

	// Whether metadata kafka.header.NAME become headers.
	Headers bool `json:"headers" default:"false"`
	// Timestamp of messages. now: the time of the write. record: the creation time of the record (opencdc.createdAt),
	// if set.
	Timestamp string `json:"timestamp" default:"now" validate:"inclusion=now|record"`
	// Partition number, or a Go template for it. Empty: chosen by the key.
	Partition string `json:"partition" template:"true"`
	// Whether delete records become messages without a value, for compacted topics.
	Tombstones bool `json:"tombstones" default:"false"`

	onceSettings
}

func (s *destinationSettings) parse(values map[string]string) ([]kgo.Opt, error) {
	*s = destinationSettings{}
	if err := sdk.Decode(values, s); err != nil {
		return nil, err
	}
	if s.ExactlyOnce && s.Acks != "all" {
		return nil, sdk.SettingError{Setting: "exactlyOnce", Message: "needs acks: all"}
	}
	opts, err := s.options()
	return append(opts, s.producer()...), err
}

var acksOf = map[string]kgo.Acks{"none": kgo.NoAck(), "one": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

var codecOf = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// maxBuffered is the maximum number of messages in the client: the number of records that a source may have
// outstanding.
const maxBuffered = 1 << 14

// linger is how long the client collects messages of overlapping writes before it sends them: each request costs the
// broker a write to its disk.
const linger = time.Millisecond

func (s *destinationSettings) producer() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.RequiredAcks(acksOf[s.Acks]),
		kgo.ProducerBatchCompression(codecOf[s.Compression], kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(s.BatchBytes),
		kgo.BrokerMaxWriteBytes(max(100<<20, 2*s.BatchBytes)),
		kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.RecordPartitioner(newPartitioner()),
		kgo.AllowAutoTopicCreation(),
	}
	if s.Acks != "all" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if s.DeliveryTimeout > 0 {
		opts = append(opts, kgo.RecordDeliveryTimeout(s.DeliveryTimeout))
	}
	return opts
}

// Destination produces to topics.
type Destination struct {
	sdk.DestinationBase

	settings   destinationSettings
	options    []kgo.Opt
	format     sdk.Format
	topic      text
	partition  text
	timeLimit  template.TimeLimit
	network    *network
	client     *kgo.Client
	valueBytes int            // approximate size of a value in the last batch
	written    common.Written // after a refused record
	once       *once          // nil unless the effect is exactly once

	last  *production // the newest
	large atomic.Bool // a batch was too large for a topic
}

// Parameters describes the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions)
}

// notInName matches a character that is invalid in a topic name.
var notInName = texts.Regexp(`[^a-zA-Z0-9._\-]`)

// isTopic reports whether a topic may have the name. The length limit is not in the expression: compiling one that
// counts to 249 takes milliseconds in each new process.
func isTopic(name string) bool {
	return name != "" && len(name) <= 249 && !notInName().MatchString(name)
}

// Configure checks and keeps the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) (err error) {
	if d.options, err = d.settings.parse(values); err != nil {
		return err
	}
	d.format = sdk.RecordFormat(ctx)
	if !strings.Contains(d.settings.Topic, "{{") && !isTopic(d.settings.Topic) {
		return sdk.SettingError{Setting: "topic",
			Message: "topic is neither a valid static Kafka topic nor a valid Go template"}
	}
	if d.topic, err = parseText(d.settings.Topic); err != nil {
		return sdk.SettingError{Setting: "topic", Message: err.Error()}
	}
	if d.partition, err = parseText(d.settings.Partition); err != nil {
		return sdk.SettingError{Setting: "partition", Message: err.Error()}
	}
	return nil
}

// Open returns when a broker has answered.
func (d *Destination) Open(ctx context.Context) (err error) {
	if d.settings.Acks != "all" {
		sdk.Logger(ctx).Warn("messages can be lost and repeated, because a write succeeds before all replicas have "+
			"them; set acks to all to prevent this",
			"acks", d.settings.Acks)
	}
	d.network = &network{log: sdk.Logger(ctx)}
	opts := append(d.options[:len(d.options):len(d.options)], kgo.WithHooks(d.network))
	if d.settings.ExactlyOnce {
		d.once = newOnce(&d.settings, sdk.EnvFrom(ctx))
		opts = append(opts, d.once.options()...)
	}
	if d.client, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("cannot open the producer: %w", err)
	}
	if err := reach(ctx, d.client, d.settings.Servers, d.network); err != nil {
		return err
	}
	if d.once == nil {
		return nil
	}
	return d.once.open(ctx, d.client, d.settings.clientSettings)
}

// Write returns when the topics have the messages.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.timeLimit.Begin(ctx)
	if d.once != nil {
		return d.once.write(ctx, d, records)
	}
	skipped := d.written.Skip(records)
	messages, failed := d.messages(records[skipped:])
	errs := produce(ctx, d.client, messages)
	d.retryLarge(ctx, messages, errs)
	n, err := d.judge(ctx, messages, errs)
	if err == nil {
		n, err = len(messages), failed
	}
	if err != nil && failed == nil && n < len(messages) {
		behind := n + 1
		for behind < len(errs) && errs[behind] == nil {
			behind++ // messages after a failed one are produced again, which keeps the order
		}
		d.written.Keep(records[skipped+n+1 : skipped+behind])
	}
	return skipped + n, err
}

// Overlaps reports whether writes may overlap. Transactions may not: only one is open at a time.
func (d *Destination) Overlaps() bool { return d.once == nil }

// Begin produces the messages. Its result waits until the topics have them. The client keeps their order: a retried
// batch delays the batches after it.
func (d *Destination) Begin(ctx context.Context, records []record.Record) (int, sdk.WriteResult, error) {
	if d.large.Load() && d.last != nil { // messages produced again alone must precede the next ones
		select {
		case <-d.last.over:
		case <-ctx.Done():
			return 0, nil, sdk.Unavailable(ctx.Err())
		}
	}
	d.timeLimit.Begin(ctx)
	p := newProduction(len(records))
	messages, refused := d.messages(records)
	for i, m := range messages {
		p.produce(ctx, d.client, i, m)
	}
	if len(messages) > 0 {
		d.last = p
	}
	return len(messages), d.result(p, messages), refused
}

// result waits for p. Each call returns the results up to a refused message, and the next call the results after it.
func (d *Destination) result(p *production, messages []*kgo.Record) sdk.WriteResult {
	var errs []error
	return func(ctx context.Context) (int, error) {
		if errs == nil {
			errs = p.wait(ctx, len(messages))
			d.retryLarge(ctx, messages, errs)
			close(p.over)
		}
		n, err := d.judge(ctx, messages, errs)
		after := min(n+1, len(messages))
		messages, errs = messages[after:], errs[after:]
		return n, err
	}
}

// Teardown closes the client.
func (d *Destination) Teardown(context.Context) error {
	if d.client != nil {
		d.client.Close()
	}
	return nil
}

// LifecycleOnDeleted deletes the positions topic if the destination chose its name.
func (d *Destination) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	var old destinationSettings
	opts, err := old.parse(values)
	if err != nil || !old.ExactlyOnce || old.PositionsTopic != "" {
		return err
	}
	topic := newOnce(&old, sdk.EnvFrom(ctx)).topic
	err = administer(ctx, opts, func(ctx context.Context, c *kadm.Client) error {
		_, err := c.DeleteTopic(ctx, topic)
		return err
	})
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("cannot remove topic %q: %w", topic, err)
	}
	return nil
}
