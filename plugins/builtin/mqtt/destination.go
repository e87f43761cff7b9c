package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/backoff"
	"github.com/conduit-agent/conduit/plugins/builtin/settings"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	serverSettings

	Topic    string        `json:"topic" validate:"required" desc:"Topic to publish to, or a template of it, such as orders/{{ .Metadata.region }}."`
	QoS      int           `json:"qos" default:"1" validate:"inclusion=0|1|2" desc:"0: records may be lost. 1: at least once. 2: once between the agent and the server, while the connection lasts."`
	Retain   bool          `json:"retain" default:"false" desc:"Whether the server keeps the last message of each topic for those that subscribe later."`
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1" desc:"How long connecting and publishing are tried again. Then the pipeline starts again, with pauses, for ever."`
}

// Destination publishes records, one after the other.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	id        string
	topic     *template.Template
	timeLimit template.TimeLimit
	client    *paho.Client    // nil: there is no connection
	lost      context.Context // of the client: ends when the connection is lost
	largest   int             // bytes of a packet that the server takes; 0: any
}

// Parameters describes the settings.
func (d *Destination) Parameters() sdk.Parameters { return sdk.ParametersOf(destinationSettings{}) }

// Configure checks and keeps the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return settings.Parse(values, &d.settings, d.check)
}

func (d *Destination) check() (err error) {
	if d.topic, err = settings.Template("topic", d.settings.Topic, checkTopic); err != nil {
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
		return errors.New("must not have +, # or a zero byte in it, nor more than 65535 bytes")
	}
	return nil
}

// Open prepares. It connects with the first record.
func (d *Destination) Open(ctx context.Context) error {
	d.id = d.settings.id(ctx)
	return nil
}

// Write publishes the records. Each is written when the server has acknowledged it.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.timeLimit.Begin(ctx)
	for i := range records {
		p, err := d.message(ctx, &records[i])
		if err == nil {
			err = d.publish(ctx, p)
		}
		if err != nil {
			return i, err
		}
	}
	return len(records), nil
}

func (d *Destination) message(ctx context.Context, r *record.Record) (*paho.Publish, error) {
	topic, err := d.topic.Append(&d.timeLimit, nil, r)
	if err != nil {
		return nil, fmt.Errorf("cannot make the topic: %w", err)
	}
	if err := checkTopic(string(topic)); err != nil {
		return nil, fmt.Errorf("cannot publish to %q: the topic %w", topic, err)
	}
	payload, err := sdk.RecordFormat(ctx)(nil, r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the record: %w", err)
	}
	return &paho.Publish{Topic: string(topic), Payload: payload, QoS: byte(d.settings.QoS), Retain: d.settings.Retain}, nil
}

// publish publishes a message, again after failures that may pass.
func (d *Destination) publish(ctx context.Context, p *paho.Publish) error {
	var again backoff.Backoff
	for begin := time.Now(); ; {
		err := d.try(ctx, p)
		switch {
		case err == nil || errors.As(err, new(recordError)):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, new(refusedError)), time.Since(begin) >= d.settings.RetryFor:
			return sdk.Unavailable(fmt.Errorf("cannot publish: %w", err))
		}
		sdk.Logger(ctx).Warn("cannot publish, trying again", "err", err, "tries", again.Tries+1)
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// recordError is what is wrong with a record.
type recordError struct{ error }

func (d *Destination) try(ctx context.Context, p *paho.Publish) error {
	if d.client != nil && done(d.client) {
		d.client = nil
	}
	if d.client == nil {
		if err := d.connect(ctx); err != nil {
			return err
		}
	}
	if d.largest > 0 && len(p.Payload)+len(p.Topic)+overhead > d.largest {
		return recordError{fmt.Errorf("the record has %d bytes: the server takes messages of up to %d", len(p.Payload), d.largest)}
	}
	again := *p // the client notes its packet id in it
	r, err := d.send(ctx, &again)
	if r != nil && r.ReasonCode >= 0x80 {
		err = fmt.Errorf("the server refuses the message for %q with code 0x%x", p.Topic, r.ReasonCode)
		switch r.ReasonCode {
		case packets.PubackTopicNameInvalid, packets.PubackPayloadFormatInvalid:
			return recordError{err}
		case packets.PubackNotAuthorized:
			return refusedError{err}
		}
		return err
	}
	if err != nil { // whether the server has it is not known
		d.leave()
	}
	return err
}

// send publishes and waits for the answer, until the connection is lost: the client alone would wait
// for the answer of a closed connection for as long as one may take.
func (d *Destination) send(ctx context.Context, p *paho.Publish) (*paho.PublishResponse, error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.lost, cancel)()
	r, err := d.client.Publish(limited, p)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = errLost
	}
	return r, err
}

// overhead is what a packet has in addition to topic and payload, at most.
const overhead = 16

func done(c *paho.Client) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func (d *Destination) connect(ctx context.Context) error {
	c, ack, err := d.settings.connect(ctx, paho.ClientConfig{}, &paho.Connect{ClientID: d.id, CleanStart: true})
	if err != nil {
		return err
	}
	lost, cancel := context.WithCancel(context.Background())
	go func() { <-c.Done(); cancel() }()
	d.client, d.lost, d.largest = c, lost, 0
	if ack.Properties != nil && ack.Properties.MaximumPacketSize != nil {
		d.largest = int(*ack.Properties.MaximumPacketSize)
	}
	return nil
}

func (d *Destination) leave() {
	_ = d.client.Disconnect(&paho.Disconnect{})
	<-d.client.Done()
	d.client = nil
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	if d.client != nil {
		d.leave()
	}
	return nil
}
