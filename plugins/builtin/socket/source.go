package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	// Whether to listen at the address, or to connect to it.
	Mode string `json:"mode" default:"listen" validate:"inclusion=listen|connect"`
	// Maximum size of a frame in bytes. Longer frames are cut off, and marked in the metadata.
	MaxBytes int `json:"maxBytes" default:"65536" validate:"gt=0,lt=1073741825"`
	// Maximum number of received frames that are not acknowledged. Beyond it, senders wait, and UDP packets are
	// dropped.
	Waiting int `json:"limit.messages" default:"10000" validate:"gt=0"`
	// Maximum number of connections of a listener. Further ones are closed.
	Connections int `json:"limit.connections" default:"1000" validate:"gt=0"`
	// Time without a complete frame after which a connection is closed. 0: never.
	Idle time.Duration `json:"idleTimeout" default:"0s" validate:"gt=-1"`
	// Timeout of connecting.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`

	commonSettings
}

// Source receives frames.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	endpoint endpoint
	tls      *tls.Config // nil: no TLS
	numbers  common.Numbers
	latest   progress.Latest
	cut      atomic.Int64 // number of frames that were cut off
	torn     atomic.Int64 // number of incomplete frames that were discarded

	server  *sockets.Server // nil before Open
	packets net.PacketConn  // nil unless it listens for packets
	stop    func()          // ends connecting; nil unless it connects
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, func() (err error) {
		listens := s.settings.Mode == "listen"
		if s.endpoint, err = s.settings.endpoint(ctx, listens); err != nil {
			return err
		}
		if listens {
			s.tls, err = s.settings.serverTLS(s.endpoint)
			return err
		}
		if s.endpoint.packets() {
			return sdk.SettingError{Setting: "mode", Message: "must be listen for packets: nobody sends them unasked"}
		}
		s.tls, err = s.settings.clientTLS(s.endpoint)
		return err
	})
}

// Open starts listening or connecting.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	if s.numbers, err = common.NewNumbers(pos); err != nil {
		return err
	}
	s.server = &sockets.Server{
		Acceptor: sockets.Acceptor{Log: sdk.Logger(ctx), Limit: s.settings.Connections},
		Inbox:    sockets.NewInbox(s.settings.Waiting, sdk.NewBuffer(ctx)),
		TLS:      s.tls, Idle: s.settings.Idle, MaxBytes: s.settings.MaxBytes,
		Framing: func(r io.Reader) sockets.Framing { return s.framing(r, func() {}) },
	}
	switch {
	case !s.endpoint.listens:
		s.connect(ctx)
	case s.endpoint.packets():
		if s.packets, err = s.endpoint.listenPackets(ctx, s.settings.UnixMode); err != nil {
			s.packets = nil
			return fmt.Errorf("cannot receive frames: %w", err)
		}
		s.server.ServePackets(s.packets)
	default:
		l, err := s.endpoint.listen(ctx, s.settings.UnixMode)
		if err != nil {
			return fmt.Errorf("cannot receive frames: %w", err)
		}
		s.server.Serve(l)
	}
	s.latest.Note("")
	return nil
}

// framing returns the frames of a connection. works is called after each frame.
func (s *Source) framing(r io.Reader, works func()) sockets.Framing {
	return &frames{Reader: sockets.NewReader(r, s.settings.MaxBytes), settings: &s.settings.commonSettings, works: works,
		torn: func() { s.torn.Add(1) }}
}

// connect keeps a connection to the server until s.stop is called.
func (s *Source) connect(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		common.Repeat(ctx, func(works func()) error { return s.session(ctx, works) }, func(err error) bool {
			err = fmt.Errorf("cannot receive frames from %s: %w", s.endpoint.address, err)
			s.server.Log.Warn("not connected, retrying", "err", err)
			s.latest.Note(err.Error())
			return true
		})
	})
	s.stop = func() { cancel(); running.Wait() }
}

// session receives frames over a connection until it ends. It calls works after the first frame.
func (s *Source) session(ctx context.Context, works func()) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	s.latest.Note("")
	err = s.server.Receive(c, s.endpoint.protocol(), s.framing(c, sync.OnceFunc(works)))
	if errors.Is(err, io.EOF) {
		return errors.New("the server has closed the connection")
	}
	return err
}

func (s *Source) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	if s.tls != nil {
		return (&tls.Dialer{Config: s.tls}).DialContext(ctx, s.endpoint.network, s.endpoint.address)
	}
	return (&net.Dialer{}).DialContext(ctx, s.endpoint.network, s.endpoint.address)
}

// Read returns frames as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	const most = 1000
	all, err := s.server.Inbox.Take(ctx, most)
	if err != nil {
		return nil, err
	}
	records := make([]record.Record, len(all))
	for i, m := range all {
		r := record.Record{Position: s.numbers.Next(), Operation: record.OperationCreate, After: record.Raw(m.Message)}
		r.Metadata.Set(record.KeyReadAt, strconv.FormatInt(m.At.UnixNano(), 10))
		if m.Remote != "" {
			r.Metadata.Set("socket.remote", m.Remote)
		}
		r.Metadata.Set("socket.protocol", m.Protocol)
		if m.Cut {
			r.Metadata.Set("socket.truncated", "true")
			s.cut.Add(1)
		}
		if m.Partial {
			r.Metadata.Set("socket.incomplete", "true")
		}
		records[i] = r
	}
	return records, nil
}

// Ack makes room for as many further frames.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.server.Inbox.Ack(len(positions))
	return nil
}

// MaxUnacked implements sdk.LimitedSource. At this number senders wait and UDP packets are dropped.
func (s *Source) MaxUnacked() int { return s.settings.Waiting }

// Progress reports the number of unacknowledged frames, and warns of frames that were cut off, discarded or dropped.
func (s *Source) Progress() progress.Report {
	waiting, dropped := s.server.Inbox.Counts()
	r := s.latest.Report()
	r.Records, r.Endless = &waiting, true
	if s.endpoint.listens {
		r.At = time.Now()
	}
	if n := s.cut.Load(); n > 0 {
		r.Warn(fmt.Sprintf("%d frames were longer than maxBytes and were truncated: they have socket.truncated in "+
			"their metadata", n))
	}
	if n := s.torn.Load(); n > 0 {
		r.Warn(fmt.Sprintf("%d incomplete frames at the ends of connections were discarded", n))
	}
	if s.packets != nil {
		dropped += sockets.KernelDrops(s.packets.LocalAddr())
	}
	if dropped > 0 {
		r.Warn(sockets.DropWarning(dropped))
	}
	return r
}

// Teardown closes the listener and all connections.
func (s *Source) Teardown(context.Context) error {
	if s.server == nil {
		return nil
	}
	err := s.server.Close()
	if s.stop != nil {
		s.stop()
	}
	return err
}
