package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	serverSettings

	// Topic to publish to, or a template for it, such as orders/{{ .Metadata.region }}.
	Topic string `json:"topic" template:"true" validate:"required"`
	// 0: records may be lost. 1: at least once. 2: once between the agent and the server, while the connection lasts.
	QoS int `json:"qos" default:"1" validate:"inclusion=0|1|2"`
	// Whether the server retains the last message of each topic for later subscribers.
	Retain bool `json:"retain" default:"false"`
	// Time for which connecting and publishing are retried. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`
}

// Destination publishes records in order.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	id        string
	topic     *template.Template
	timeLimit template.TimeLimit
	client    *connection    // nil when not connected
	largest   int            // largest packet that the server accepts, in bytes; 0: no limit
	written   common.Written // messages after a refused record that the server already has
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
	if d.topic, err = common.ParseTemplate("topic", d.settings.Topic, checkTopic); err != nil {
		return err
	}
	return d.settings.check()
}

func checkTopic(topic string) error {
	const longest = 65535
	switch {
	case topic == "":
		return errors.New("must not be empty")
	case len(topic) > longest, strings.ContainsAny(topic, "+#\x00"):
		return errors.New("must not contain +, # or a zero byte, nor be longer than 65535 bytes")
	}
	return nil
}

// Open prepares the destination. Write connects.
func (d *Destination) Open(ctx context.Context) error {
	d.id = d.settings.id(ctx)
	return nil
}

// Write publishes the records, several at a time. A record is written when the server has acknowledged it.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.timeLimit.Begin(ctx)
	skipped := d.written.Skip(records)
	messages, unfit := d.messages(ctx, records[skipped:])
	n, err := d.publish(ctx, messages)
	if refused := (*recordError)(nil); errors.As(err, &refused) {
		d.written.Keep(records[skipped+n+1:][:refused.behind])
	}
	if err == nil {
		err = unfit
	}
	return skipped + n, err
}

// messages converts records to messages. err describes the first record that cannot be converted; nil if there is none.
func (d *Destination) messages(ctx context.Context, records []record.Record) (messages []paho.Publish, err error) {
	messages = make([]paho.Publish, 0, len(records))
	var topic, payloads []byte
	var name string // topic
	format := sdk.RecordFormat(ctx)
	for i := range records {
		if topic, err = d.topic.Append(&d.timeLimit, topic[:0], &records[i]); err != nil {
			return messages, fmt.Errorf("cannot execute the template of topic: %w", err)
		}
		if i == 0 || string(topic) != name {
			name = string(topic)
			if err := checkTopic(name); err != nil {
				return messages, fmt.Errorf("cannot publish to %q: the topic %w", name, err)
			}
		}
		begin := len(payloads)
		if payloads, err = format(payloads, &records[i]); err != nil {
			return messages, fmt.Errorf("cannot encode the record: %w", err)
		}
		messages = append(messages, paho.Publish{Topic: name, Payload: payloads[begin:len(payloads):len(payloads)],
			QoS: byte(d.settings.QoS), Retain: d.settings.Retain, Properties: properties(&records[i])})
	}
	return messages, nil
}

// properties returns the user properties of a record: its trace context. They are nil if there is none.
func properties(r *record.Record) *paho.PublishProperties {
	parent, state := r.Metadata.TraceContext()
	if parent == "" {
		return nil
	}
	user := paho.UserProperties{{Key: record.KeyTraceParent, Value: parent}}
	if state != "" {
		user = append(user, paho.UserProperty{Key: record.KeyTraceState, Value: state})
	}
	return &paho.PublishProperties{User: user}
}

func (d *Destination) connect(ctx context.Context) (err error) {
	d.client, err = d.settings.connect(ctx, newSession(), paho.ClientConfig{},
		&paho.Connect{ClientID: d.id, CleanStart: true})
	if err != nil {
		return err
	}
	d.largest = 0
	if p := d.client.ack.Properties; p != nil && p.MaximumPacketSize != nil {
		d.largest = int(*p.MaximumPacketSize)
	}
	return nil
}

func (d *Destination) leave() {
	if d.client == nil {
		return
	}
	_ = d.client.Disconnect(&paho.Disconnect{})
	<-d.client.Done()
	d.client = nil
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	d.leave()
	return nil
}
