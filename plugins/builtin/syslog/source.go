package syslog

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/syslog"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

type sourceSettings struct {
	// Host and port to receive messages at.
	Address string `json:"address" default:"127.0.0.1:5514"`
	// udp, tcp, or both. With tls.cert, tcp uses TLS, and udp is not allowed.
	Protocols []string `json:"protocols" default:"udp,tcp"`
	// Whether the payload is the unparsed message. Otherwise it is an object with its parts.
	Raw bool `json:"raw" default:"false"`
	// Maximum size of a message in bytes. Longer messages are truncated.
	MaxBytes int `json:"maxBytes" default:"65536" validate:"gt=479"`
	// Maximum number of received messages without acknowledgement. Beyond it, connections wait, and UDP messages are
	// dropped.
	Waiting int `json:"limit.messages" default:"10000" validate:"gt=0"`
	// Maximum number of connections. Further ones are closed.
	Connections int `json:"limit.connections" default:"1000" validate:"gt=0"`
	// Idle time after which a connection is closed. 0: never.
	Idle time.Duration `json:"idleTimeout" default:"0s" validate:"gt=-1"`
	// Time zone of timestamps without one, such as Local or Europe/Vienna.
	Zone string `json:"timezone" default:"UTC"`

	common.TLS
}

func (s *sourceSettings) check() error {
	if _, _, err := net.SplitHostPort(s.Address); err != nil {
		return sdk.SettingError{Setting: "address", Message: "must be a host and a port, such as 127.0.0.1:5514"}
	}
	if err := common.CheckAddress("address", s.Address); err != nil {
		return err
	}
	if _, err := texttype.Zone("timezone", s.Zone); err != nil {
		return err
	}
	for _, p := range s.Protocols {
		if p != "udp" && p != "tcp" {
			return sdk.SettingError{Setting: "protocols", Message: "must be udp, tcp, or both"}
		}
	}
	if s.Cert != "" && s.has("udp") {
		return sdk.SettingError{Setting: "protocols",
			Message: "must be tcp with tls.cert: UDP is not encrypted"}
	}
	_, err := s.Server()
	return err
}

func (s *sourceSettings) has(protocol string) bool { return slices.Contains(s.Protocols, protocol) }

// Source is a syslog server.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	zone     *time.Location
	numbers  common.Numbers
	latest   progress.Latest
	cut      atomic.Int64 // number of truncated messages

	server  *sockets.Server // nil before Open
	packets net.PacketConn  // nil: no UDP
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open starts listening.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	if s.numbers, err = common.NewNumbers(pos); err != nil {
		return err
	}
	if s.zone, err = time.LoadLocation(s.settings.Zone); err != nil {
		return err
	}
	s.server = &sockets.Server{
		Acceptor: sockets.Acceptor{Log: sdk.Logger(ctx), Limit: s.settings.Connections},
		Inbox:    sockets.NewInbox(s.settings.Waiting, sdk.NewBuffer(ctx)),
		Idle:     s.settings.Idle, MaxBytes: s.settings.MaxBytes, Framing: s.settings.framing,
	}
	if s.server.TLS, err = s.settings.Server(); err != nil {
		return err
	}
	if s.server.TLS != nil {
		s.server.TLS.NextProtos = nil // no protocols of HTTP
	}
	if s.settings.has("tcp") {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.Address)
		if err != nil {
			return fmt.Errorf("cannot receive messages: %w", err)
		}
		s.server.Serve(l)
	}
	if s.settings.has("udp") {
		if s.packets, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", s.settings.Address); err != nil {
			return fmt.Errorf("cannot receive messages: %w", err)
		}
		s.server.ServePackets(s.packets)
	}
	s.latest.Note("")
	return nil
}

// Read returns messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	const most = 1000
	all, err := s.server.Inbox.Take(ctx, most)
	if err != nil {
		return nil, err
	}
	records, parser := make([]record.Record, len(all)), syslog.Parser{Zone: s.zone, Now: time.Now()}
	for i, m := range all {
		r := record.Record{Position: s.numbers.Next(), Operation: record.OperationCreate, After: record.Raw(m.Message)}
		if !s.settings.Raw {
			r.After = record.Structured(parse(&parser, m.Message))
		}
		r.Metadata.Set("syslog.remote", m.Remote)
		r.Metadata.Set("syslog.protocol", m.Protocol)
		if m.Cut {
			r.Metadata.Set("syslog.truncated", "true")
			s.cut.Add(1)
		}
		records[i] = r
	}
	return records, nil
}

// parse returns the parts of a message. A message in neither format becomes text with the default priority, as RFC 3164
// requires of receivers.
func parse(p *syslog.Parser, b []byte) map[string]any {
	var m syslog.Message
	err := syslog.ErrFormat
	if syslog.Is5424(b) {
		m, err = p.Parse5424(b)
	}
	if err != nil {
		m, err = p.Parse3164(b)
	}
	if err != nil || m.Priority == syslog.NoPriority {
		m = syslog.Message{Priority: syslog.DefaultPriority, Text: bytes.TrimRight(b, "\r\n\x00")}
	}
	return m.Object()
}

// Ack makes room for as many further messages.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.server.Inbox.Ack(len(positions))
	return nil
}

// MaxUnacked implements sdk.LimitedSource. At this number connections wait and UDP messages are dropped.
func (s *Source) MaxUnacked() int { return s.settings.Waiting }

// Progress reports the number of unacknowledged messages, and a warning if some were dropped.
func (s *Source) Progress() progress.Report {
	waiting, dropped := s.server.Inbox.Counts()
	r := s.latest.Report()
	r.Records, r.At, r.Endless = &waiting, time.Now(), true
	if s.packets != nil {
		dropped += sockets.KernelDrops(s.packets.LocalAddr())
	}
	if n := s.cut.Load(); n > 0 {
		r.Warn(fmt.Sprintf("%d messages were longer than maxBytes and were truncated: they have "+
			"syslog.truncated in their metadata", n))
	}
	if dropped > 0 {
		r.Warn(sockets.DropWarning(dropped))
	}
	return r
}

// Teardown closes the listeners and all connections.
func (s *Source) Teardown(context.Context) error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
