package syslog

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/syslog"
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
	if _, err := time.LoadLocation(s.Zone); err != nil {
		return sdk.SettingError{Setting: "timezone", Message: "must be a time zone such as Europe/Vienna"}
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
	log      *slog.Logger
	zone     *time.Location
	tls      *tls.Config // nil: no TLS
	numbers  common.Numbers
	inbox    *inbox
	latest   progress.Latest
	cut      atomic.Int64 // number of truncated messages

	listener net.Listener   // nil: no TCP
	packets  net.PacketConn // nil: no UDP
	running  sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{} // guarded by mu; nil after Teardown
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
	s.log, s.inbox, s.conns = sdk.Logger(ctx), newInbox(s.settings.Waiting, sdk.NewBuffer(ctx)), map[net.Conn]struct{}{}
	if s.numbers, err = common.NewNumbers(pos); err != nil {
		return err
	}
	if s.zone, err = time.LoadLocation(s.settings.Zone); err != nil {
		return err
	}
	if s.tls, err = s.settings.Server(); err != nil {
		return err
	}
	if s.tls != nil {
		s.tls.NextProtos = nil // no protocols of HTTP
	}
	if s.settings.has("tcp") {
		if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.settings.Address); err != nil {
			return fmt.Errorf("cannot receive messages: %w", err)
		}
		s.running.Go(s.accept)
	}
	if s.settings.has("udp") {
		if s.packets, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", s.settings.Address); err != nil {
			return fmt.Errorf("cannot receive messages: %w", err)
		}
		_ = s.packets.(*net.UDPConn).SetReadBuffer(udpBuffer) // as large as the kernel allows
		s.running.Go(s.receive)
	}
	s.latest.Note("")
	return nil
}

const udpBuffer = 4 << 20

// accept accepts connections.
func (s *Source) accept() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example when no file descriptor is left
			s.log.Warn("cannot accept a connection", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if s.tls != nil {
			c = tls.Server(c, s.tls)
		}
		if !s.admit(c) {
			_ = c.Close()
			continue
		}
		s.running.Go(func() { s.serve(c) })
	}
}

func (s *Source) admit(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	if len(s.conns) >= s.settings.Connections || !common.TakeConnection() {
		s.log.Warn("connection closed, because the number of connections has reached limit.connections, or half of "+
			"the file descriptors of the agent", "remote", c.RemoteAddr().String())
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// serve receives messages over a connection until it ends.
func (s *Source) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		common.ReleaseConnection()
		delete(s.conns, c)
	}()
	protocol := "tcp"
	if s.tls != nil {
		protocol = "tls"
	}
	remote, frames := hostOf(c.RemoteAddr()), newFrames(c, s.settings.MaxBytes)
	for {
		if s.settings.Idle > 0 {
			_ = c.SetReadDeadline(time.Now().Add(s.settings.Idle))
		}
		b, err := frames.next()
		if len(b) > 0 && !s.inbox.put(received{remote, protocol, b, frames.cut}) {
			return
		}
		if err != nil {
			if !isEnd(err) {
				s.log.Warn("connection closed", "remote", remote, "err", err)
			}
			return
		}
	}
}

// receive receives packets.
func (s *Source) receive() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := s.packets.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn("cannot receive", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.inbox.offer(received{hostOf(from), "udp", slices.Clone(buf[:min(n, s.settings.MaxBytes)]),
			n > s.settings.MaxBytes})
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// Read returns messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	const most = 1000
	all, err := s.inbox.take(ctx, most)
	if err != nil {
		return nil, err
	}
	records, parser := make([]record.Record, len(all)), syslog.Parser{Zone: s.zone, Now: time.Now()}
	for i, m := range all {
		r := record.Record{Position: s.numbers.Next(), Operation: record.OperationCreate, After: record.Raw(m.message)}
		if !s.settings.Raw {
			r.After = record.Structured(parse(&parser, m.message))
		}
		r.Metadata.Set("syslog.remote", m.remote)
		r.Metadata.Set("syslog.protocol", m.protocol)
		if m.cut {
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
	s.inbox.ack(len(positions))
	return nil
}

// MaxUnacked implements sdk.LimitedSource. At this number connections wait and UDP messages are dropped.
func (s *Source) MaxUnacked() int { return s.settings.Waiting }

// Progress reports the number of unacknowledged messages, and a warning if some were dropped.
func (s *Source) Progress() progress.Report {
	waiting, dropped := s.inbox.counts()
	r := s.latest.Report()
	r.Records, r.At, r.Endless = &waiting, time.Now(), true
	if s.packets != nil {
		dropped += kernelDrops(s.packets.LocalAddr())
	}
	if n := s.cut.Load(); n > 0 {
		r.Warn(fmt.Sprintf("%d messages were longer than maxBytes and were truncated: they have "+
			"syslog.truncated in their metadata", n))
	}
	if dropped > 0 {
		r.Warn(fmt.Sprintf("%d messages over UDP were dropped: they arrive faster than the pipeline writes them",
			dropped))
	}
	return r
}

// Teardown closes the listeners and all connections.
func (s *Source) Teardown(context.Context) error {
	var errs []error
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	if s.inbox != nil {
		s.inbox.close()
	}
	if s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	if s.packets != nil {
		errs = append(errs, s.packets.Close())
	}
	s.running.Wait()
	return errors.Join(errs...)
}

// isEnd reports whether err is a normal end of a connection.
func isEnd(err error) bool {
	return errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "EOF") ||
		strings.Contains(err.Error(), "connection reset")
}
