package websocket

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	endpointSettings

	// Template of the message. Empty: the payload after the change, as text or JSON.
	Message string `json:"message" template:"true"`
	// Type of the messages. A text must be UTF-8.
	Type string `json:"type" default:"text" validate:"inclusion=text|binary"`
	// Time for which connecting and sending are retried. After that the pipeline fails and is restarted with backoff.
	// With mode connect.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`
	// Action when no client is connected. wait: records wait for one. drop: records count as written. With mode listen.
	NoReader string `json:"noReader" default:"wait" validate:"inclusion=wait|drop"`
}

func (s *destinationSettings) check() error {
	if !s.listens() && s.NoReader != "wait" {
		return sdk.SettingError{Setting: "noReader", Message: "needs mode listen"}
	}
	return s.endpointSettings.check()
}

func (s *destinationSettings) binary() bool { return s.Type == "binary" }

// target is the other side of the connections of a destination.
type target interface {
	// write sends messages in order. It returns how many the other side has read, and the error of the next one.
	write(ctx context.Context, messages [][]byte) (int, error)
	// close ends the connections.
	close(ctx context.Context) error
}

// Destination sends records as messages.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	network   dialer             // nil: the network of this host
	message   *template.Template // nil: the payload
	timeLimit template.TimeLimit
	target    target // nil before Open
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+httpclient.Descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	d.message = nil
	return common.ParseSettings(values, &d.settings, func() (err error) {
		if d.settings.Message != "" {
			if d.message, err = common.ParseTemplate("message", d.settings.Message, nil); err != nil {
				return err
			}
		}
		return d.settings.check()
	})
}

// Open starts listening. With mode connect, Write connects.
func (d *Destination) Open(ctx context.Context) error {
	if !d.settings.listens() {
		d.target = &sender{settings: &d.settings, network: d.network}
		return nil
	}
	a, err := newAudience(ctx, &d.settings)
	if err != nil {
		return err
	}
	d.target = a
	return nil
}

// Write sends the records. A record is written when the other side has answered a ping behind its message.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.timeLimit.Begin(ctx)
	messages, unfit := d.messages(records)
	n, err := d.target.write(ctx, messages)
	if err == nil {
		err = unfit
	}
	return n, err
}

// messages converts records to messages. err describes the first record that cannot be converted; nil if there is none.
func (d *Destination) messages(records []record.Record) (messages [][]byte, err error) {
	messages = make([][]byte, 0, len(records))
	for i := range records {
		text, err := d.encode(&records[i])
		if err != nil {
			return messages, err
		}
		messages = append(messages, text)
	}
	return messages, nil
}

func (d *Destination) encode(r *record.Record) (text []byte, err error) {
	switch {
	case d.message != nil:
		if text, err = d.message.Append(&d.timeLimit, nil, r); err != nil {
			return nil, fmt.Errorf("cannot execute the template of message: %w", err)
		}
	case r.After.IsNone():
		return nil, errors.New("cannot send the record: it has no payload after the change: set message, or remove " +
			"deletes with the processor filter")
	default:
		var isRaw bool
		if text, isRaw = r.After.Raw(); !isRaw {
			if text, err = r.After.AppendJSON(nil); err != nil {
				return nil, fmt.Errorf("cannot encode the payload: %w", err)
			}
		}
	}
	if !d.settings.binary() && !utf8.Valid(text) {
		return nil, errors.New("cannot send the record: its message is not UTF-8 text: set type to binary")
	}
	return text, nil
}

// Teardown closes the connections.
func (d *Destination) Teardown(ctx context.Context) error {
	if d.target == nil {
		return nil
	}
	return d.target.close(ctx)
}

// Maximum of the messages that are sent before a ping.
const (
	maxSent      = 1000
	maxSentBytes = 1 << 20
)

// portion returns the number of messages to send before the next ping, at least one and at most most.
func portion(messages [][]byte, most int) (n int) {
	for size := 0; n < min(len(messages), most) && (n == 0 || size < maxSentBytes); n++ {
		size += len(messages[n])
	}
	return n
}
