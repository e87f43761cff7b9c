package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	serverSettings

	// Exchange to publish to, or a template. Default: the default exchange, which routes to the queue named by
	// routingKey.
	Exchange string `json:"exchange" template:"true"`
	// Routing key, or a template, such as orders.{{ .Metadata.region }}.
	RoutingKey string `json:"routingKey" template:"true"`
	// Type of the durable queue, named by routingKey, that the destination declares if it does not exist. It needs the
	// default exchange and a routing key without a template. Default: the queue must exist.
	Declare string `json:"declare" validate:"inclusion=classic|quorum|stream"`
	// Whether a record that the exchange routes to no queue is refused; otherwise the server drops it.
	Mandatory bool `json:"mandatory" default:"true"`
	// Whether the server stores messages on disk.
	Persistent bool `json:"persistent" default:"true"`
	// Content type of the messages, such as application/json.
	ContentType string `json:"contentType" literal:"true"`
	// Whether metadata rabbitmq.header.NAME become headers.
	Headers bool `json:"headers" default:"false"`
	// Time for which connecting and publishing are retried. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`
}

// Destination publishes records in order.
type Destination struct {
	sdk.DestinationBase

	settings   destinationSettings
	exchange   *template.Template
	routingKey *template.Template
	timeLimit  template.TimeLimit
	ids        common.RecordIDs
	written    common.Written // messages after a refused record that the server already has
	publisher  *publisher     // nil when not connected
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, d.check)
}

func (d *Destination) check() (err error) {
	if d.settings.Exchange == "" && d.settings.RoutingKey == "" {
		return sdk.SettingError{Setting: "routingKey",
			Message: "is required without exchange: set it to the name of a queue"}
	}
	if len(d.settings.ContentType) > longestName {
		return sdk.SettingError{Setting: "contentType", Message: "must not be longer than 255 bytes"}
	}
	if d.exchange, err = common.ParseTemplate("exchange", d.settings.Exchange, checkName); err != nil {
		return err
	}
	if d.routingKey, err = common.ParseTemplate("routingKey", d.settings.RoutingKey, checkName); err != nil {
		return err
	}
	if _, constant := d.routingKey.Constant(); d.settings.Declare != "" && (d.settings.Exchange != "" || !constant) {
		return sdk.SettingError{Setting: "declare",
			Message: "needs the name of one queue as routingKey, without a template, and no exchange"}
	}
	return d.settings.check()
}

func checkName(name string) error {
	if len(name) > longestName {
		return errors.New("must not be longer than 255 bytes")
	}
	return nil
}

// Open does nothing. Write connects.
func (d *Destination) Open(context.Context) error { return nil }

// outgoing is a message to publish.
type outgoing struct {
	amqp.Publishing
	exchange, key string
}

// Write publishes the records, several at a time. A record is written when the server has confirmed it.
func (d *Destination) Write(ctx context.Context, records []record.Record) (n int, err error) {
	d.timeLimit.Begin(ctx)
	ids := d.ids.IDs(records)
	defer func() { d.ids.Wrote(n, err) }()
	skipped := d.written.Skip(records)
	messages, unfit := d.messages(ctx, records[skipped:], ids[skipped:])
	n, err = d.publish(ctx, messages)
	if refused := (*recordError)(nil); errors.As(err, &refused) {
		d.written.Keep(records[skipped+n+1:][:refused.behind])
	}
	if err == nil {
		err = unfit
	}
	return skipped + n, err
}

// messages converts the records up to the first one that cannot be published, and returns its error.
func (d *Destination) messages(
	ctx context.Context, records []record.Record, ids []common.RecordID,
) (all []outgoing, err error) {
	format := sdk.RecordFormat(ctx)
	for i := range records {
		m := outgoing{Publishing: amqp.Publishing{MessageId: ids[i].String(), ContentType: d.settings.ContentType,
			DeliveryMode: amqp.Transient}}
		if d.settings.Persistent {
			m.DeliveryMode = amqp.Persistent
		}
		if m.exchange, err = d.name("exchange", d.exchange, &records[i]); err != nil {
			return all, err
		}
		if m.key, err = d.name("routingKey", d.routingKey, &records[i]); err != nil {
			return all, err
		}
		if m.Body, err = format(nil, &records[i]); err != nil {
			return all, fmt.Errorf("cannot encode the record: %w", err)
		}
		if m.Headers, err = d.headers(&records[i]); err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// name returns the result of the template of a setting.
func (d *Destination) name(setting string, t *template.Template, r *record.Record) (string, error) {
	text, err := t.Append(&d.timeLimit, nil, r)
	if err != nil {
		return "", fmt.Errorf("cannot execute the template of %s: %w", setting, err)
	}
	if err := checkName(string(text)); err != nil {
		return "", fmt.Errorf("cannot publish the record: its %s %w", setting, err)
	}
	return string(text), nil
}

// maxHeaders is the maximum size of the headers of a message in bytes: they must fit into one frame.
const maxHeaders = 64 << 10

// headers returns the headers of a record: its trace context and, if the settings want them, its metadata. They are nil
// if there are none.
func (d *Destination) headers(r *record.Record) (h amqp.Table, err error) {
	bytes := 0
	set := func(name, value string) {
		if h == nil {
			h = amqp.Table{}
		}
		h[name] = value
		bytes += headerSize + len(name) + len(value)
	}
	if d.settings.Headers {
		for name, value := range r.Metadata.Repeated(headerPrefix) {
			if len(name) <= longestName && !reserved(name) {
				set(name, value)
			}
		}
	}
	if bytes > maxHeaders {
		return nil, fmt.Errorf("cannot publish the record: its headers have %d bytes, more than %d", bytes, maxHeaders)
	}
	if parent, state := r.Metadata.TraceContext(); parent != "" {
		delete(h, record.KeyTraceState) // of another context
		set(record.KeyTraceParent, parent)
		if state != "" {
			set(record.KeyTraceState, state)
		}
	}
	return h, nil
}

// reserved reports whether the server interprets a header.
func reserved(name string) bool {
	return name == "CC" || name == "BCC" || strings.HasPrefix(name, "x-")
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	d.leave()
	return nil
}
