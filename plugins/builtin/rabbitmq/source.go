package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	serverSettings

	// Queue or stream to read. The source detects its type.
	Queue string `json:"queue" literal:"true" validate:"required"`
	// Starting point in a stream: first, an offset, or a time such as 2026-01-02T03:04:05Z.
	Offset string `json:"offset" default:"first" literal:"true"`
	// Action when messages of a stream were removed before they were read: stop with an error, or log it and continue
	// with the remaining messages.
	Gap string `json:"gap" default:"stop" validate:"inclusion=stop|continue"`
	// Type of the durable queue that the source declares if it does not exist. Default: the queue must exist.
	Declare string `json:"declare" validate:"inclusion=classic|quorum|stream"`
	// Bindings of the queue that the source declares, each as EXCHANGE:ROUTINGKEY, such as orders:order.*.created.
	Bindings []string `json:"bindings" literal:"true"`
	// Maximum number of received messages without acknowledgement.
	Prefetch int `json:"prefetch" default:"1000" validate:"gt=0,lt=65536"`
	// Size in bytes of waiting messages above which the source does not read more from its connection.
	BufferSize int64 `json:"buffer.maxBytes" default:"8388608" validate:"gt=0"`
}

func (s *sourceSettings) check() error {
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	if len(s.Queue) > longestName {
		return wrong("queue", "must not be longer than 255 bytes")
	}
	switch _, err := s.beginning(); {
	case s.Offset == "next" || s.Offset == "last":
		return wrong("offset", "must not depend on the time of connecting: a restart before the first record would "+
			"skip messages. Set a time such as "+time.Now().UTC().Format(time.RFC3339))
	case err != nil:
		return wrong("offset", "must be first, an offset, or a time such as 2026-01-02T03:04:05Z")
	}
	if err := common.CheckItems("bindings", s.Bindings, wrongBinding, func(a, b string) bool { return a == b }); err !=
		nil {
		return err
	}
	return s.serverSettings.check()
}

// longestName is the maximum length in bytes of the names of queues and exchanges, and of routing keys.
const longestName = 255

// wrongBinding describes the mistake in a binding; "" if it is valid.
func wrongBinding(binding string) string {
	exchange, key, ok := strings.Cut(binding, ":")
	switch {
	case !ok || exchange == "":
		return "is not a binding: write EXCHANGE:ROUTINGKEY, or EXCHANGE: without a routing key"
	case len(exchange) > longestName || len(key) > longestName:
		return "has a name of more than 255 bytes"
	}
	return ""
}

// beginning returns the argument of the consumer for the starting point in a stream.
func (s *sourceSettings) beginning() (any, error) {
	if s.Offset == "first" {
		return s.Offset, nil
	}
	if n, err := strconv.ParseInt(s.Offset, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	at, err := time.Parse(time.RFC3339, s.Offset)
	return at, err
}

// kind is the kind of a queue.
type kind string

const (
	unknown  kind = ""
	isQueue  kind = "a queue" // classic or quorum
	isStream kind = "a stream"
)

// Source reads a queue or a stream. The server keeps unacknowledged messages of a queue, and sends them again after a
// lost connection.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *slog.Logger
	numbers  common.Numbers // of the messages of a queue; owned by Read
	begin    any            // starting point in a stream without a last message. Owned by run
	kind     kind           // of the queue that the source has read. Owned by run
	last     *position      // last received message of a stream; nil: none. Owned by run
	asked    time.Time      // last query of the oldest message. Owned by run

	cancel context.CancelFunc // ends run
	ended  chan struct{}      // closed when run has ended
	inbox  *received

	latest progress.Latest
	behind progress.Latest
	skips  progress.Skips // safe for concurrent use
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open starts connecting in the background. The source waits for a server that is not available.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	if bytes.HasPrefix(pos, []byte("{")) {
		s.kind = isStream
		s.last, err = parsePosition(pos, s.settings.Queue)
		pos = nil
	}
	if len(pos) > 0 {
		s.kind = isQueue
	}
	if err == nil {
		s.numbers, err = common.NewNumbers(pos)
	}
	if err == nil {
		s.begin, err = s.settings.beginning()
	}
	if err != nil {
		return err
	}
	s.log, s.inbox = sdk.Logger(ctx), newReceived(s.settings.BufferSize, sdk.NewBuffer(ctx))
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.ended = make(chan struct{})
	go func() { defer close(s.ended); s.run(ctx) }()
	return nil
}

// run connects, and reconnects with backoff after each lost connection.
func (s *Source) run(ctx context.Context) {
	common.Repeat(ctx, func(works func()) error { return s.session(ctx, works) }, func(err error) bool {
		if errors.As(err, new(gapError)) || errors.As(err, new(deniedError)) || sdk.Panicked(err) {
			s.inbox.Fail(err)
			return false
		}
		s.latest.Note(err.Error())
		s.log.Warn("cannot receive, reconnecting", "err", err)
		return true
	})
}

// session receives over one connection, until it is lost or ctx ends.
func (s *Source) session(ctx context.Context, works func()) error {
	receives, end := context.WithCancel(ctx)
	defer end()
	c, err := s.settings.connect(ctx, func() { s.inbox.wait(receives) })
	if err != nil {
		return err
	}
	defer func() {
		end()
		c.leave(s.settings.Timeout) // sends the last acknowledgements
	}()
	s.inbox.begin(c)
	defer s.inbox.end()
	// Waiting for a response has no time limit: heartbeats detect a dead server.
	defer context.AfterFunc(ctx, func() { c.socket.interrupt(s.settings.Timeout) })()
	in, err := s.consume(c)
	if err != nil {
		return c.explain(s.settings.explain(err))
	}
	works()
	s.latest.Note("")
	return s.receive(ctx, c, in)
}

// interrupt closes the connection after a time in which the last acknowledgements can be sent.
func (s *socket) interrupt(after time.Duration) {
	time.AfterFunc(after, func() { _ = s.Close() })
}

// consumer is a consumer at the server.
type consumer struct {
	kind     kind // unknown until the first message, if the queue may be a stream
	messages <-chan amqp.Delivery
	closed   <-chan *amqp.Error // the reason for which the server has closed the channel
	canceled <-chan string      // gets the tag of the consumer when the server ends it
}

// consume declares the queue if the settings want it, and begins to receive. It first asks for an offset, as only
// streams have them: without an offset, the server would begin at the end of a stream, and the messages before it would
// be lost. A server that accepts the offset for a queue sends messages without offsets.
func (s *Source) consume(c *connection) (*consumer, error) {
	if err := s.settings.declare(c); err != nil {
		return nil, err
	}
	from := s.begin
	if s.last != nil { // the last message is read again, to recognize the stream
		from = int64(s.last.Offset)
	}
	in, err := s.attach(c, amqp.Table{offsetHeader: from})
	var reason *amqp.Error
	if !errors.As(err, &reason) || reason.Code != amqp.PreconditionFailed ||
		!strings.Contains(reason.Reason, offsetHeader) {
		return in, err
	}
	if err := s.is(isQueue); err != nil {
		return nil, err
	}
	if in, err = s.attach(c, nil); err != nil {
		return nil, err
	}
	in.kind = isQueue
	return in, nil
}

// attach starts a consumer with arguments.
func (s *Source) attach(c *connection, arguments amqp.Table) (*consumer, error) {
	ch, err := c.Channel()
	if err != nil {
		return nil, err
	}
	in := &consumer{closed: ch.NotifyClose(make(chan *amqp.Error, 1)),
		canceled: ch.NotifyCancel(make(chan string, 1))}
	if err := ch.Qos(s.settings.Prefetch, 0, false); err != nil {
		return nil, err
	}
	const chunk = 1 << 16 // messages that a stream may send at once, beyond the prefetch count
	c.socket.checker.Allow(s.settings.Prefetch + chunk)
	in.messages, err = ch.Consume(s.settings.Queue, "conduit", false, false, false, false, arguments)
	return in, err
}

// is records the kind of the queue. It fails if the source has read a queue of another kind, as the place in one means
// nothing in the other.
func (s *Source) is(k kind) error {
	if s.kind != unknown && s.kind != k {
		return deniedError{sdk.Permanent(fmt.Errorf("cannot resume: %q was %s when it was read, and is %s now: set "+
			"queue to another one, or %s", s.settings.Queue, s.kind, k, sdk.StartOver))}
	}
	s.kind = k
	return nil
}

// declare declares the queue and its bindings as the settings want.
func (s *sourceSettings) declare(c *connection) error {
	if s.Declare == "" && len(s.Bindings) == 0 {
		return nil
	}
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	if s.Declare != "" {
		if err := declareQueue(ch, s.Queue, s.Declare); err != nil {
			return err
		}
	}
	for _, binding := range s.Bindings {
		exchange, key, _ := strings.Cut(binding, ":")
		if err := ch.QueueBind(s.Queue, key, exchange, false, nil); err != nil {
			return fmt.Errorf("cannot bind the queue to exchange %q: %w", exchange, err)
		}
	}
	return ch.Close()
}

// declareQueue declares a durable queue of a type, unless it exists.
func declareQueue(ch *amqp.Channel, name, kind string) error {
	_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind})
	return err
}

// explain adds the remedy to an error of the server about the queue.
func (s *sourceSettings) explain(err error) error {
	var reason *amqp.Error
	switch {
	case errors.As(err, new(deniedError)):
		return err
	case !errors.As(err, &reason):
		return fmt.Errorf("cannot read queue %q: %w", s.Queue, err)
	}
	var remedy string
	switch {
	case strings.Contains(reason.Reason, "inaccessible"), strings.Contains(reason.Reason, "timed out"):
		// a node is down; or messages were unacknowledged for longer than consumer_timeout of the server
		return fmt.Errorf("cannot read queue %q: %w", s.Queue, err)
	case reason.Code == amqp.NotFound:
		remedy = "create the queue and the exchanges of bindings, or set declare for the queue"
	case reason.Code == amqp.PreconditionFailed:
		remedy = "the queue exists with other arguments: set declare to its type, or remove declare"
	case reason.Code == amqp.AccessRefused:
		remedy = "give the user the permission to read the queue, and to configure it and to write to it with " +
			"declare and bindings"
	case reason.Code == amqp.ResourceLocked:
		remedy = "another connection uses the queue exclusively"
	default:
		return fmt.Errorf("cannot read queue %q: %w", s.Queue, err)
	}
	return deniedError{fmt.Errorf("cannot read queue %q in vhost %q: %w: %s", s.Queue, s.VHost, err, remedy)}
}

const queryInterval = 5 * time.Second

// receive queues messages until the connection is lost or ctx ends.
func (s *Source) receive(ctx context.Context, c *connection, in *consumer) error {
	query := time.NewTicker(queryInterval)
	defer query.Stop()
	var silent <-chan time.Time // until the first message of a stream that has been read before
	if s.last != nil {
		t := time.NewTimer(s.settings.Timeout)
		defer t.Stop()
		silent = t.C
	}
	for first := true; ; {
		select {
		case d, ok := <-in.messages:
			if !ok {
				return s.lost(c, in)
			}
			if err := s.take(ctx, c, in, d, first); err != nil {
				return err
			}
			first, silent = false, nil
			// Not earlier: unread messages of the last connection would delay the first message of this one.
			c.socket.hold.Store(true)
		case <-silent:
			return s.vanished(ctx, c)
		case <-query.C:
			if in.kind == isQueue { // the count of a stream includes the messages that were read
				s.measure(c)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lost returns the reason for the end of a consumer.
func (s *Source) lost(c *connection, in *consumer) error {
	select {
	case reason := <-in.closed:
		if reason != nil && !c.IsClosed() {
			return s.settings.explain(reason)
		}
	case <-in.canceled:
		return fmt.Errorf("the server ended the consumer: queue %q was deleted, or its node is down", s.settings.Queue)
	default:
	}
	_ = c.socket.Close()
	return c.failure(<-c.lost)
}

// offsetHeader is the header with the offset of a message in a stream, and the argument with the offset of a consumer.
const offsetHeader = "x-stream-offset"

// take queues a message. In a stream it first checks that no message is missing before it.
func (s *Source) take(ctx context.Context, c *connection, in *consumer, d amqp.Delivery, first bool) error {
	offset, has := d.Headers[offsetHeader].(int64)
	if in.kind == unknown {
		if in.kind = isQueue; has {
			in.kind = isStream
		}
		if err := s.is(in.kind); err != nil {
			return err
		}
	}
	m := &message{Delivery: d, conn: c}
	if in.kind == isStream {
		if !has {
			return fmt.Errorf("a message of stream %q has no offset", s.settings.Queue)
		}
		m.stream, m.offset = true, uint64(offset)
		if again, err := s.follows(ctx, m, first); again || err != nil {
			return err
		}
		s.last = &position{Stream: s.settings.Queue, Offset: m.offset, Resume: 1, Sum: sumOf(d.Body)}
	}
	s.inbox.put(m)
	s.latest.Note("")
	return nil
}

// measure queries the number of messages in a queue.
func (s *Source) measure(c *connection) {
	ch, err := c.Channel()
	if err != nil {
		return // receive notices a lost connection
	}
	defer func() { _ = ch.Close() }()
	if q, err := ch.QueueDeclarePassive(s.settings.Queue, true, false, false, false, nil); err == nil {
		n := int64(q.Messages)
		s.behind.Set(progress.Report{Records: &n})
	}
}

// MaxUnacked implements sdk.LimitedSource: at this number of unacknowledged messages the server stops sending.
func (s *Source) MaxUnacked() int { return s.settings.Prefetch }

// Read returns messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	messages, err := s.inbox.read(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]record.Record, len(messages))
	for i, m := range messages {
		records[i] = recordOf(s.settings.Queue, &m.Delivery)
		if !m.stream {
			records[i].Position = s.numbers.Next()
			continue
		}
		records[i].Metadata.Set("rabbitmq.offset", strconv.FormatUint(m.offset, 10))
		p := position{Stream: s.settings.Queue, Offset: m.offset, Resume: 1, Sum: sumOf(m.Body)}
		if records[i].Position, err = p.encode(); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// Ack acknowledges the messages at the positions.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.inbox.ack(len(positions))
	return nil
}

// Progress reports the number of unacknowledged messages, and why the source receives nothing if it is not connected.
func (s *Source) Progress() progress.Report {
	r := s.latest.Report()
	r.Skipped = s.skips.List()
	if waiting := s.behind.Report().Records; waiting != nil {
		n := *waiting + int64(s.inbox.unacked())
		r.Records = &n
	}
	return r
}

// Teardown sends the last acknowledgements and disconnects.
func (s *Source) Teardown(context.Context) error {
	if s.cancel != nil {
		s.cancel()
		<-s.ended
		s.inbox.buffer.Close()
	}
	return nil
}
