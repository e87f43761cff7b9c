package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	serverSettings

	// Topics, or filters with + and #, such as sensors/+/temperature.
	Topics []string `json:"topics" literal:"true" validate:"required"`
	// 0: messages may be lost. 1: no message is lost while the session exists.
	QoS int `json:"qos" default:"1" validate:"inclusion=0|1"`
	// Time for which the server keeps the session and its messages while the source is disconnected. The server may
	// enforce a shorter time.
	Expiry time.Duration `json:"session.expiry" default:"24h" validate:"gt=0"`
	// Action when the session and its messages are gone: stop with an error, or log it and continue with new messages.
	Lost string `json:"session.lost" default:"stop" validate:"inclusion=stop|continue"`
	// Maximum number of received messages without acknowledgement. The server may send fewer.
	Maximum int `json:"receiveMaximum" default:"1000" validate:"gt=0,lt=65536"`
}

// Source subscribes to topics. The session at the server keeps unacknowledged messages.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *slog.Logger
	id       string // client name
	numbers  numbers
	known    bool // whether the session must exist; owned by run

	cancel context.CancelFunc // ends run
	ended  chan struct{}      // closed when run has ended
	inbox  *received

	latest progress.Latest
	skips  progress.Skips // safe for concurrent use
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, func() error {
		if err := common.CheckItems("topics", s.settings.Topics, wrongFilter, overlap); err != nil {
			return err
		}
		return s.settings.check()
	})
}

// Open starts connecting in the background. The source waits for a server that is not available.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	if s.numbers, err = newNumbers(pos); err != nil {
		return err
	}
	s.log, s.id, s.known = sdk.Logger(ctx), s.settings.id(ctx), len(pos) > 0
	s.inbox = newReceived(s.settings.Maximum, sdk.NewBuffer(ctx))
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.ended = make(chan struct{})
	go func() { defer close(s.ended); s.run(ctx) }()
	return nil
}

// run connects, and reconnects with backoff after each lost connection.
func (s *Source) run(ctx context.Context) {
	var again common.Backoff
	for {
		err := sdk.Contain(func() error { return s.session(ctx, &again) })
		if ctx.Err() != nil {
			return
		}
		if errors.As(err, new(deniedError)) || errors.As(err, new(lostError)) || sdk.Panicked(err) {
			s.inbox.Fail(err)
			return
		}
		s.latest.Note(err.Error())
		s.log.Warn("cannot receive, reconnecting", "err", err, "tries", again.Tries+1)
		if again.Wait(ctx) != nil {
			return
		}
	}
}

// Progress reports why the source receives nothing, if it is not connected. The server does not report its number of
// queued messages.
func (s *Source) Progress() progress.Report {
	r := s.latest.Report()
	r.Skipped = s.skips.List()
	return r
}

// lostError reports that the session, and its messages, are lost.
type lostError struct{ error }

// session receives over one connection, until it is lost or ctx ends.
func (s *Source) session(ctx context.Context, again *common.Backoff) error {
	closed := make(chan string, 1)
	own := newSession()
	client, err := s.settings.connect(ctx, own, paho.ClientConfig{
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			s.received(own, p.Packet)
			return true, nil
		}},
		OnServerDisconnect: func(d *paho.Disconnect) {
			closed <- fmt.Sprintf("the server ended the connection with code 0x%x", d.ReasonCode)
		},
	}, s.connect(s.settings.Expiry))
	if err != nil {
		return err
	}
	if err := s.gap(client.ack); err != nil {
		s.leave(client, 0) // removes the new, empty session
		return err
	}
	if err := s.subscribe(ctx, client); err != nil {
		s.leave(client, s.settings.Expiry)
		return err
	}
	s.known, again.Tries = true, 0
	s.latest.Note("")
	select {
	case <-ctx.Done():
		s.leave(client, s.settings.Expiry)
		return ctx.Err()
	case <-client.Done():
	}
	select {
	case why := <-closed:
		return errors.New(why)
	default:
		return errLost
	}
}

func (s *Source) connect(expiry time.Duration) *paho.Connect {
	seconds, most := uint32(max(1, expiry/time.Second)), uint16(s.settings.Maximum)
	return &paho.Connect{ClientID: s.id, Properties: &paho.ConnectProperties{SessionExpiryInterval: &seconds,
		ReceiveMaximum: &most, RequestProblemInfo: true}}
}

func (s *Source) leave(c *connection, expiry time.Duration) {
	seconds := uint32(expiry / time.Second)
	_ = c.Disconnect(&paho.Disconnect{Properties: &paho.DisconnectProperties{SessionExpiryInterval: &seconds}})
	<-c.Done()
}

// gap returns an error when the server does not have a session that must exist, because its messages are lost too.
func (s *Source) gap(ack *paho.Connack) error {
	if ack.Properties != nil && ack.Properties.SessionExpiryInterval != nil {
		if kept := time.Duration(*ack.Properties.SessionExpiryInterval) * time.Second; kept < s.settings.Expiry {
			s.log.Warn("the server keeps sessions for a shorter time than session.expiry", "keeps", kept.String())
		}
	}
	if ack.SessionPresent || !s.known || s.settings.QoS == 0 {
		return nil
	}
	err := fmt.Errorf("messages were missed: the server no longer has the session of client %q, so messages "+
		"published after %s, the time of the last received message, are lost. The session expired, was removed, or "+
		"the server lost it. To continue without these messages, set session.lost to continue", s.id,
		s.numbers.at().UTC().Format(time.RFC3339))
	if s.settings.Lost == "continue" {
		s.log.Error("continuing without the missing messages", "err", err)
		s.skips.Add("messages after "+s.numbers.at().UTC().Format(time.RFC3339), err)
		return nil
	}
	return lostError{err}
}

// subscribe subscribes to the topics. The server sends retained messages when a subscription is new, not on each
// reconnect.
func (s *Source) subscribe(ctx context.Context, c *connection) error {
	const onlyWhenMade = 1
	request := &paho.Subscribe{}
	for _, topic := range s.settings.Topics {
		request.Subscriptions = append(request.Subscriptions, paho.SubscribeOptions{Topic: topic,
			QoS: byte(s.settings.QoS), RetainHandling: onlyWhenMade, RetainAsPublished: true})
	}
	ctx, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	ack, err := c.Subscribe(ctx, request)
	if ack != nil {
		for i, code := range ack.Reasons {
			if code >= 0x80 && i < len(s.settings.Topics) {
				return deniedError{fmt.Errorf("the server refused the subscription of %q with code 0x%x: %w",
					s.settings.Topics[i], code, err)}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	return nil
}

func (s *Source) received(on *session, p *paho.Publish) {
	if tooManyProperties(p) {
		what := "message with topic " + record.ValidName(p.Topic)
		if s.skips.Add(what, errProperties) {
			s.log.Warn("skipping a message", "what", what, "err", errProperties)
		}
		s.inbox.leaveOut(on, p)
		return
	}
	if !s.inbox.put(on, p) {
		s.latest.Note("messages of QoS 0 were dropped because they arrive faster than the pipeline writes them")
		s.skips.Add("messages of QoS 0 with topic "+record.ValidName(p.Topic), errFast)
	}
}

var errFast = errors.New("they arrive faster than the pipeline writes them")

var errProperties = errors.New("it has more than 1 MiB of properties")

// tooManyProperties reports whether the connection has replaced the properties of a message because there were too
// many.
func tooManyProperties(p *paho.Publish) bool {
	return p.Properties != nil && len(p.Properties.User) > 0 && p.Properties.User[0].Key == peer.LeftOut
}

// MaxUnacked implements sdk.LimitedSource: at this number of unacknowledged messages the server stops sending. Messages
// with QoS 0 have no limit.
func (s *Source) MaxUnacked() int {
	if s.settings.QoS == 0 {
		return 0
	}
	return s.settings.Maximum
}

// Read returns messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	messages, err := s.inbox.Take(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]record.Record, len(messages))
	for i, m := range messages {
		s.inbox.buffer.Add(-sizeOf(m.publish))
		records[i] = recordOf(m.publish)
		records[i].Position = s.numbers.next(time.Now())
	}
	return records, nil
}

func recordOf(p *paho.Publish) record.Record {
	r := record.Record{Operation: record.OperationCreate, After: record.Raw(p.Payload)}
	r.Metadata.Set(record.KeyCollection, record.ValidName(p.Topic))
	r.Metadata.Set("mqtt.qos", string('0'+rune(p.QoS)))
	if p.Retain {
		r.Metadata.Set("mqtt.retained", "true")
	}
	if p.Properties == nil {
		return r
	}
	for key, value := range map[string]string{"mqtt.contentType": p.Properties.ContentType,
		"mqtt.responseTopic": p.Properties.ResponseTopic} {
		if value != "" {
			r.Metadata.Set(key, value)
		}
	}
	parent, state := "", ""
	for _, u := range p.Properties.User {
		r.Metadata.Add("mqtt.user."+u.Key, u.Value)
		switch u.Key {
		case record.KeyTraceParent:
			parent = u.Value
		case record.KeyTraceState:
			state = u.Value
		}
	}
	r.Metadata.SortRepeated()
	r.Metadata.SetTraceContext(parent, state)
	return r
}

// Ack acknowledges the messages at the positions.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.inbox.ack(len(positions))
	return nil
}

// Teardown sends the last acknowledgements and disconnects. The session stays at the server.
func (s *Source) Teardown(context.Context) error {
	if s.cancel != nil {
		s.cancel()
		<-s.ended
		s.inbox.buffer.Close()
	}
	return nil
}

// LifecycleOnUpdated removes leftovers of the old settings at the server: the session of another client, or
// subscriptions.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	var old, now sourceSettings
	if sdk.Decode(before, &old) != nil || sdk.Decode(after, &now) != nil {
		return nil // invalid settings left nothing at the server
	}
	if old.URL != now.URL || old.id(ctx) != now.id(ctx) {
		return old.remove(ctx)
	}
	gone := slices.DeleteFunc(old.Topics, func(t string) bool { return slices.Contains(now.Topics, t) })
	if len(gone) == 0 {
		return nil
	}
	s.settings, s.id = now, now.id(ctx)
	c, err := now.connect(ctx, newSession(), paho.ClientConfig{}, s.connect(now.Expiry))
	if err != nil {
		return fmt.Errorf("cannot unsubscribe: %w", err)
	}
	defer s.leave(c, now.Expiry)
	if _, err = c.Unsubscribe(ctx, &paho.Unsubscribe{Topics: gone}); err != nil {
		return fmt.Errorf("cannot unsubscribe: %w", err)
	}
	return nil
}

// LifecycleOnDeleted removes the session at the server.
func (s *Source) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	var settings sourceSettings
	if sdk.Decode(values, &settings) != nil {
		return nil
	}
	return settings.remove(ctx)
}

// remove removes the session at the server.
func (s *sourceSettings) remove(ctx context.Context) error {
	c, err := s.connect(ctx, newSession(), paho.ClientConfig{}, &paho.Connect{ClientID: s.id(ctx), CleanStart: true})
	if err != nil {
		return fmt.Errorf("cannot remove the session: %w", err)
	}
	_ = c.Disconnect(&paho.Disconnect{})
	<-c.Done()
	return nil
}
