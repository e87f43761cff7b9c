package rabbitmq

import (
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

	// Queue or stream to read.
	Queue string `json:"queue" literal:"true" validate:"required"`
	// Type of the queue. A stream is read by offset and keeps its messages. Otherwise it matters only with declare.
	Type string `json:"type" default:"quorum" validate:"inclusion=classic|quorum|stream"`
	// Starting point in a stream: first; next for messages published after the source has connected; an offset; or a
	// time such as 2026-01-02T03:04:05Z.
	Offset string `json:"offset" default:"first" literal:"true"`
	// Action when messages of a stream were removed before they were read: stop with an error, or log it and continue
	// with the remaining messages.
	Gap string `json:"gap" default:"stop" validate:"inclusion=stop|continue"`
	// Whether the source declares the queue, durable and of the type, if it does not exist.
	Declare bool `json:"declare" default:"false"`
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
	if _, err := s.beginning(); err != nil {
		return wrong("offset", "must be first, next, an offset or a time such as 2026-01-02T03:04:05Z")
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
	if s.Offset == "first" || s.Offset == "next" {
		return s.Offset, nil
	}
	if n, err := strconv.ParseInt(s.Offset, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	at, err := time.Parse(time.RFC3339, s.Offset)
	return at, err
}

func (s *sourceSettings) isStream() bool { return s.Type == "stream" }

// Source reads a queue or a stream. The server keeps unacknowledged messages of a queue, and sends them again after a
// lost connection.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *slog.Logger
	numbers  common.Numbers // of the messages of a queue
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
	if s.settings.isStream() {
		s.last, err = parsePosition(pos, s.settings.Queue)
	} else {
		s.numbers, err = common.NewNumbers(pos)
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

// gapError reports missed messages.
type gapError struct{ error }

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
	s.inbox.begin(c, !s.settings.isStream())
	defer s.inbox.begin(nil, false)
	// Waiting for the server has no limit of its own: the heartbeats notice a dead one.
	defer context.AfterFunc(ctx, func() { c.socket.interrupt(s.settings.Timeout) })()
	ch, err := c.Channel()
	if err != nil {
		return c.explain(err)
	}
	closed, canceled := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyCancel(make(chan string, 1))
	messages, err := s.consume(c, ch)
	if err != nil {
		return c.explain(s.settings.explain(err))
	}
	works()
	s.latest.Note("")
	return s.receive(ctx, c, messages, func() error {
		select {
		case reason := <-closed:
			if reason != nil && !c.IsClosed() {
				return s.settings.explain(reason)
			}
		case <-canceled:
			return fmt.Errorf("the server ended the consumer: queue %q was deleted, or its node is down",
				s.settings.Queue)
		default:
		}
		_ = c.socket.Close()
		return c.failure()
	})
}

// interrupt closes the connection after a time in which the last acknowledgements can be sent.
func (s *socket) interrupt(after time.Duration) {
	time.AfterFunc(after, func() { _ = s.Close() })
}

// consume declares the queue if the settings want it, and begins to receive.
func (s *Source) consume(c *connection, ch *amqp.Channel) (<-chan amqp.Delivery, error) {
	if err := s.settings.declare(ch); err != nil {
		return nil, err
	}
	if err := ch.Qos(s.settings.Prefetch, 0, false); err != nil {
		return nil, err
	}
	const chunk = 1 << 16 // messages that a stream may send at once, beyond the prefetch count
	c.socket.checker.Allow(s.settings.Prefetch + chunk)
	var arguments amqp.Table
	if s.settings.isStream() {
		from, err := s.settings.beginning()
		if err != nil {
			return nil, err
		}
		if s.last != nil { // the last message is read again, to recognize the stream
			from = int64(s.last.Offset)
		}
		arguments = amqp.Table{offsetHeader: from}
	}
	return ch.Consume(s.settings.Queue, "conduit", false, false, false, false, arguments)
}

func (s *sourceSettings) declare(ch *amqp.Channel) error {
	if s.Declare {
		if _, err := ch.QueueDeclare(s.Queue, true, false, false, false, amqp.Table{"x-queue-type": s.Type}); err != nil {
			return err
		}
	}
	for _, binding := range s.Bindings {
		exchange, key, _ := strings.Cut(binding, ":")
		if err := ch.QueueBind(s.Queue, key, exchange, false, nil); err != nil {
			return fmt.Errorf("cannot bind the queue to exchange %q: %w", exchange, err)
		}
	}
	return nil
}

// explain adds the remedy to an error of the server about the queue.
func (s *sourceSettings) explain(err error) error {
	var reason *amqp.Error
	if !errors.As(err, &reason) {
		return fmt.Errorf("cannot read queue %q: %w", s.Queue, err)
	}
	remedy := ""
	switch {
	case strings.Contains(reason.Reason, "inaccessible"), strings.Contains(reason.Reason, "timed out"):
		// a node is down; or messages were unacknowledged for longer than consumer_timeout of the server
		return fmt.Errorf("cannot read queue %q: %w", s.Queue, err)
	case reason.Code == amqp.NotFound:
		remedy = "create the queue and the exchanges of bindings, or set declare to true for the queue"
	case reason.Code == amqp.PreconditionFailed:
		remedy = "the queue exists with other arguments: set type to its type, or declare to false"
	case reason.Code == amqp.AccessRefused:
		remedy = "give the user the permission to read the queue, and to configure it and to write to it with " +
			"declare and bindings"
	case reason.Code == amqp.ResourceLocked:
		remedy = "another connection uses the queue exclusively"
	case reason.Code == amqp.NotImplemented:
		remedy = "set type to the type of the queue"
	default:
		return fmt.Errorf("cannot read queue %q: %w", s.Queue, err)
	}
	return deniedError{fmt.Errorf("cannot read queue %q in vhost %q: %w: %s", s.Queue, s.VHost, err, remedy)}
}

const queryInterval = 5 * time.Second

// receive queues messages until the connection is lost or ctx ends. lost returns the reason when there are no more
// messages.
func (s *Source) receive(
	ctx context.Context, c *connection, messages <-chan amqp.Delivery, lost func() error,
) error {
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
		case d, ok := <-messages:
			if !ok {
				return lost()
			}
			if err := s.take(ctx, c, d, first); err != nil {
				return err
			}
			first, silent = false, nil
			// Not earlier: unread messages of the last connection would delay the first message of this one.
			c.socket.hold.Store(true)
		case <-silent:
			if err := s.missing(fmt.Errorf("stream %q has no message from offset %d on, which the source has read: it "+
				"was recreated, or it lost messages", s.settings.Queue, s.last.Offset)); err != nil {
				return err
			}
			s.startOver()
			return errors.New("the stream was recreated")
		case <-query.C:
			s.measure(c)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offsetHeader is the header with the offset of a message in a stream, and the argument with the offset of a consumer.
const offsetHeader = "x-stream-offset"

// take queues a message, after it has checked that none is missing before it.
func (s *Source) take(ctx context.Context, c *connection, d amqp.Delivery, first bool) error {
	m := &message{Delivery: d, conn: c}
	offset, has := d.Headers[offsetHeader].(int64)
	if !s.settings.isStream() {
		if has && first {
			return deniedError{fmt.Errorf("cannot read queue %q: its messages have offsets, so it is a stream: set "+
				"type to stream", s.settings.Queue)}
		}
		s.inbox.put(m)
		s.latest.Note("")
		return nil
	}
	if !has {
		return deniedError{fmt.Errorf("cannot read stream %q: its messages have no offsets, so it is a queue: set "+
			"type to classic or quorum", s.settings.Queue)}
	}
	m.offset = uint64(offset)
	if again, err := s.follows(ctx, c, m, first); again || err != nil {
		return err
	}
	s.last = &position{Stream: s.settings.Queue, Offset: m.offset, Resume: 1, Sum: sumOf(d.Body)}
	s.inbox.put(m)
	s.latest.Note("")
	return nil
}

// follows checks that m follows the last received message of the stream. again is true if m was received before; then
// follows has acknowledged it.
func (s *Source) follows(ctx context.Context, c *connection, m *message, first bool) (again bool, err error) {
	switch {
	case s.last == nil:
		return false, nil
	case first && m.offset == s.last.Offset && sumOf(m.Body) != s.last.Sum:
		if err := s.missing(fmt.Errorf("stream %q was recreated: the message at offset %d is another one than the "+
			"source has read", s.settings.Queue, m.offset)); err != nil {
			return false, err
		}
		s.startOver()
		return false, errors.New("the stream was recreated")
	case m.offset <= s.last.Offset:
		m.conn.socket.checker.Allow(1)
		_ = m.Ack(false)
		return true, nil
	case m.offset == s.last.Offset+1:
		return false, nil
	}
	return false, s.jump(ctx, c, m, first)
}

// jump detects messages that were removed before they were read. Offsets also jump where the stream stores data of
// its own, so jump queries the oldest message, at most ten times per second after the first message of a connection.
func (s *Source) jump(ctx context.Context, c *connection, m *message, first bool) error {
	const pause = 100 * time.Millisecond
	if !first && time.Since(s.asked) < pause {
		return nil
	}
	oldest, err := s.oldest(ctx, c)
	if err != nil {
		return err
	}
	s.asked = time.Now()
	if oldest <= s.last.Offset+1 {
		return nil
	}
	return s.missing(fmt.Errorf("up to %d messages of stream %q, from offset %d to %d, were removed before they were "+
		"read: increase the retention of the stream", min(oldest, m.offset)-s.last.Offset-1, s.settings.Queue,
		s.last.Offset+1, min(oldest, m.offset)-1))
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
	c.socket.checker.Allow(1)
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

// startOver makes the next session begin with the oldest message.
func (s *Source) startOver() { s.last, s.settings.Offset = nil, "first" }

// measure queries the number of messages in a queue. The count of a stream includes the messages that were read.
func (s *Source) measure(c *connection) {
	if s.settings.isStream() {
		return
	}
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
		if !s.settings.isStream() {
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
