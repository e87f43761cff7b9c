package nats

import (
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	serverSettings

	// Subject to publish to, or a template for it, such as orders.{{ .Metadata.region }}.
	Subject string `json:"subject" template:"true" validate:"required"`
	// Stream that must receive the messages; otherwise they are refused. Default: any.
	Stream string `json:"stream" literal:"true"`
	// Whether messages of type jetstream have ids derived from record positions, so that the stream drops duplicates
	// within its duplicate window.
	IDs bool `json:"messageIDs" default:"true"`
	// Whether metadata nats.header.NAME become headers.
	Headers bool `json:"headers" default:"false"`
	// Time for which connecting and publishing are retried. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`
}

func (s *destinationSettings) check() error {
	if s.Stream != "" && s.Type == "core" {
		return sdk.SettingError{Setting: "stream", Message: "needs type jetstream"}
	}
	return s.serverSettings.check()
}

// Destination publishes records.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	subject   *template.Template
	timeLimit template.TimeLimit
	ids       common.RecordIDs
	conn      *conn // nil when not connected
	js        jetstream.JetStream
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	err := common.ParseSettings(values, &d.settings, d.settings.check)
	if err == nil {
		d.subject, err = common.ParseTemplate("subject", d.settings.Subject, checkSubject)
	}
	return err
}

func checkSubject(subject string) error {
	if subject == "" || strings.ContainsAny(subject, " \t\r\n*>\x00") || strings.HasPrefix(subject, ".") ||
		strings.HasSuffix(subject, ".") || strings.Contains(subject, "..") {
		return errors.New("must be words separated by dots, without *, > and spaces")
	}
	return nil
}

// Open does nothing. Write connects.
func (d *Destination) Open(context.Context) error { return nil }

// Write publishes the records in order. A record is written when its stream has acknowledged it.
func (d *Destination) Write(ctx context.Context, records []record.Record) (n int, err error) {
	d.timeLimit.Begin(ctx)
	defer func() { d.ids.Wrote(n, err) }()
	messages, refused := d.messages(ctx, records)
	var again common.Backoff
	for begin := time.Now(); n < len(messages); {
		done, err := d.try(ctx, messages[n:])
		n += done
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return n, ctx.Err()
		case errors.As(err, new(recordError)):
			return n, err
		case errors.As(err, new(deniedError)), time.Since(begin) >= d.settings.RetryFor:
			return n, sdk.Unavailable(fmt.Errorf("cannot publish: %w", err))
		}
		sdk.Logger(ctx).Warn("cannot publish, retrying", "err", err)
		if err := again.Wait(ctx); err != nil {
			return n, err
		}
	}
	return n, refused
}

// messages converts the records up to the first one that cannot be published, and returns its error.
func (d *Destination) messages(ctx context.Context, records []record.Record) ([]*client.Msg, error) {
	format, all := sdk.RecordFormat(ctx), make([]*client.Msg, 0, len(records))
	ids := d.ids.IDs(records)
	for i := range records {
		subject, err := d.subject.Append(&d.timeLimit, nil, &records[i])
		if err == nil {
			err = checkSubject(string(subject))
		}
		if err != nil {
			return all, fmt.Errorf("cannot publish to %q: the subject %w", subject, err)
		}
		m := &client.Msg{Subject: string(subject)}
		if m.Data, err = format(nil, &records[i]); err != nil {
			return all, fmt.Errorf("cannot encode the record: %w", err)
		}
		if d.settings.IDs && d.settings.Type != "core" {
			m.Header = client.Header{jetstream.MsgIDHeader: {ids[i].String()}}
		}
		if d.settings.Stream != "" {
			addHeader(m, jetstream.ExpectedStreamHeader, d.settings.Stream)
		}
		if d.settings.Headers {
			for name, value := range records[i].Metadata.Repeated("nats.header.") {
				if !strings.HasPrefix(name, "Nats-") {
					addHeader(m, name, value)
				}
			}
		}
		if parent, state := records[i].Metadata.TraceContext(); parent != "" {
			setTraceContext(m, parent, state)
		}
		all = append(all, m)
	}
	return all, nil
}

func addHeader(m *client.Msg, name, value string) {
	if m.Header == nil {
		m.Header = client.Header{}
	}
	m.Header[name] = append(m.Header[name], value)
}

// setTraceContext sets the headers of a trace context in place of another one.
func setTraceContext(m *client.Msg, parent, state string) {
	for _, name := range []string{record.KeyTraceParent, record.KeyTraceState} {
		delete(m.Header, name)
		delete(m.Header, textproto.CanonicalMIMEHeaderKey(name))
	}
	addHeader(m, record.KeyTraceParent, parent)
	if state != "" {
		addHeader(m, record.KeyTraceState, state)
	}
}

// recordError reports a record that cannot be published.
type recordError struct{ error }

// try publishes messages and returns how many of the first ones are written.
func (d *Destination) try(ctx context.Context, messages []*client.Msg) (int, error) {
	if err := d.connect(ctx); err != nil {
		return 0, err
	}
	if d.settings.Type == "core" {
		return d.tryCore(ctx, messages)
	}
	var futures []jetstream.PubAckFuture
	var failed error
	for _, m := range messages[:min(len(messages), maxPending)] {
		if failed = d.fits(m); failed != nil {
			break
		}
		f, err := d.js.PublishMsgAsync(m)
		if err != nil {
			failed = err
			break
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		if err := d.await(ctx, f); err != nil {
			d.leave() // the fate of the later messages is unknown
			return i, err
		}
	}
	return len(futures), failed
}

const maxPending = 256 // published and unacknowledged messages

// fits returns an error when the message is larger than the server accepts.
func (d *Destination) fits(m *client.Msg) error {
	if largest := d.conn.MaxPayload(); int64(m.Size()-len(m.Subject)) > largest {
		return recordError{fmt.Errorf("the record has %d bytes, more than the %d that the server accepts", len(m.Data),
			largest)}
	}
	return nil
}

func (d *Destination) await(ctx context.Context, f jetstream.PubAckFuture) error {
	late := time.NewTimer(d.settings.Timeout)
	defer late.Stop()
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return d.explain(f.Msg(), err)
	case <-d.conn.lost:
		return d.conn.failure()
	case <-late.C:
		return fmt.Errorf("no stream acknowledged a message within %v", d.settings.Timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// codeTooLarge is the error code for a message that is larger than its stream accepts.
const codeTooLarge jetstream.ErrorCode = 10054

func (d *Destination) explain(m *client.Msg, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode == codeTooLarge:
		return recordError{fmt.Errorf("the stream refused the record: %w", err)}
	case errors.Is(err, client.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream has the subject %q: create a stream, or set type to core", m.Subject)
	}
	return err
}

func (d *Destination) tryCore(ctx context.Context, messages []*client.Msg) (int, error) {
	for i, m := range messages {
		err := d.fits(m)
		if err == nil {
			err = d.conn.PublishMsg(m)
		}
		if err != nil {
			_ = d.conn.FlushTimeout(d.settings.Timeout)
			return i, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.settings.Timeout)
	defer cancel()
	if err := d.conn.FlushWithContext(ctx); err != nil {
		d.leave()
		return 0, err
	}
	return len(messages), nil
}

func (d *Destination) connect(ctx context.Context) error {
	if d.conn != nil && d.conn.IsConnected() {
		return nil
	}
	d.leave()
	c, err := d.settings.connect(ctx)
	if err != nil {
		return err
	}
	js, err := jetstream.New(c.Conn, jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncTimeout(d.settings.Timeout))
	if err != nil {
		c.Close()
		return err
	}
	d.conn, d.js = c, js
	return nil
}

func (d *Destination) leave() {
	if d.conn != nil {
		d.conn.Close()
	}
	d.conn = nil
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	d.leave()
	return nil
}
