package syslog

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/syslog"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	// Host and port of the server, such as logs.example.com:6514.
	Address string `json:"address" validate:"required"`
	// Transport of messages.
	Protocol string `json:"protocol" default:"tcp" validate:"inclusion=udp|tcp|tls"`
	// Format of the messages.
	Format string `json:"format" default:"rfc5424" validate:"inclusion=rfc5424|rfc3164"`
	// Framing of messages on a connection: their lengths, or newlines. With newlines, those in a message become spaces.
	Framing string `json:"framing" default:"octet-counting" validate:"inclusion=octet-counting|newline"`
	// Facility, such as local0, or a template for it.
	Facility string `json:"facility" template:"true" default:"user"`
	// Severity, such as warning, or a template for it, such as {{ .Payload.After.level }}.
	Severity string `json:"severity" template:"true" default:"info"`
	// Host name, or a template for it. Empty: the name of this host.
	Host string `json:"hostname" template:"true"`
	// Application, or a template for it.
	App string `json:"appname" template:"true" default:"conduit"`
	// Process name or id (PROCID), or a template for it.
	Process string `json:"procid" template:"true"`
	// Type of the message (MSGID), or a template for it. Not used with rfc3164.
	ID string `json:"msgid" template:"true"`
	// Timeout of connecting and sending, and of TCP acknowledgements by the server's host.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`
	// Time for which connecting and sending are retried. After that the pipeline fails and is restarted with backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`

	common.TLS
}

// Destination sends messages to a server.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	parts     parts
	timeLimit template.TimeLimit
	host      string // name of this machine
	sender    *sockets.Sender
}

// parts are the templates of a message.
type parts struct{ facility, severity, host, app, process, id *template.Template }

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) (err error) {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	s := &d.settings
	if err := common.CheckAddress("address", s.Address); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil || host == "" {
		return sdk.SettingError{Setting: "address", Message: "must be a host and a port, such as logs.example.com:6514"}
	}
	for _, part := range []struct {
		into          **template.Template
		setting, text string
		known         []string
	}{
		{&d.parts.facility, "facility", s.Facility, syslog.Facilities}, {&d.parts.severity, "severity", s.Severity,
			syslog.Severities},
		{&d.parts.host, "hostname", s.Host, nil}, {&d.parts.app, "appname", s.App, nil},
		{&d.parts.process, "procid", s.Process, nil}, {&d.parts.id, "msgid", s.ID, nil},
	} {
		if *part.into, err = common.ParseTemplate(part.setting, part.text, nil); err != nil {
			return err
		}
		if value, constant := (*part.into).Constant(); constant && part.known != nil &&
			!slices.Contains(part.known, value) {
			return sdk.SettingError{Setting: part.setting,
				Message: fmt.Sprintf("must be one of %v, or a template", part.known)}
		}
	}
	d.sender = &sockets.Sender{Network: s.Protocol, Address: s.Address, Timeout: s.Timeout, RetryFor: s.RetryFor}
	secure, err := s.Client()
	if err == nil && s.Protocol == "tls" {
		secure.ServerName = host
		d.sender.Network, d.sender.TLS = "tcp", secure
	}
	return err
}

// Open prepares the destination. Write connects.
func (d *Destination) Open(context.Context) (err error) {
	d.host, err = os.Hostname()
	return err
}

// Write sends the records. The protocol has no acknowledgements. A record sent over a connection is written when the
// kernel of the server has acknowledged it and the server has not closed the connection. A record sent over UDP is
// written when the local kernel has accepted the packet.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	if d.Overlaps() {
		n, result, refused := d.Begin(ctx, records)
		if n > 0 {
			if done, err := result(ctx); err != nil {
				return done, err
			}
		}
		return n, refused
	}
	d.timeLimit.Begin(ctx)
	messages, refused := d.messages(ctx, records)
	if n, err := d.sender.Write(ctx, messages); err != nil {
		return n, err
	}
	return len(messages), refused
}

// Overlaps reports whether Begin can send more records before earlier ones are acknowledged.
func (d *Destination) Overlaps() bool { return !d.sender.Packets() }

// Begin sends the records over the connection, if there is one. The result waits until they are acknowledged. After a
// lost connection it reconnects and sends all unacknowledged messages again.
func (d *Destination) Begin(ctx context.Context, records []record.Record) (int, sdk.WriteResult, error) {
	d.timeLimit.Begin(ctx)
	messages, refused := d.messages(ctx, records)
	if len(messages) == 0 {
		return 0, nil, refused
	}
	return len(messages), d.sender.Begin(ctx, messages), refused
}

// messages converts the records up to the first one that has no valid message, and returns its error.
func (d *Destination) messages(ctx context.Context, records []record.Record) (all [][]byte, err error) {
	for i := range records {
		m, err := d.message(ctx, &records[i])
		if err != nil {
			return all, err
		}
		all = append(all, d.frame(m.Append(nil, d.settings.Format)))
	}
	return all, nil
}

func (d *Destination) message(ctx context.Context, r *record.Record) (*syslog.Message, error) {
	m := &syslog.Message{Time: time.Now()}
	var facility, severity string
	for _, part := range []struct {
		into   *string
		name   string
		format *template.Template
	}{
		{&facility, "facility", d.parts.facility}, {&severity, "severity", d.parts.severity},
		{&m.Host, "hostname", d.parts.host},
		{&m.App, "appname", d.parts.app}, {&m.Process, "procid", d.parts.process}, {&m.ID, "msgid", d.parts.id},
	} {
		text, err := part.format.Append(&d.timeLimit, nil, r)
		if err != nil {
			return nil, fmt.Errorf("cannot execute the template of %s: %w", part.name, err)
		}
		*part.into = string(text)
	}
	f, s := slices.Index(syslog.Facilities, facility), slices.Index(syslog.Severities, severity)
	if f < 0 || s < 0 {
		return nil, fmt.Errorf("cannot send the record: facility %q or severity %q is invalid", facility, severity)
	}
	m.Priority = 8*f + s
	if m.Host == "" {
		m.Host = d.host
	}
	text, err := sdk.RecordFormat(ctx)(nil, r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the record: %w", err)
	}
	m.Text = text
	return m, nil
}

// frame adds the framing that separates messages on a connection.
func (d *Destination) frame(b []byte) []byte {
	switch {
	case d.settings.Protocol == "udp":
		return b
	case d.settings.Framing == "newline":
		for i, c := range b {
			if c == '\n' || c == 0 {
				b[i] = ' '
			}
		}
		return append(b, '\n')
	}
	return append(append(strconv.AppendInt(nil, int64(len(b)), 10), ' '), b...)
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	if d.sender != nil {
		d.sender.Close()
	}
	return nil
}
