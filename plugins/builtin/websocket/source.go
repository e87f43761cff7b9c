package websocket

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	endpointSettings

	// Text messages to send after connecting, one per line, such as a request for a subscription. With mode connect.
	Subscribe string `json:"subscribe" literal:"true"`
	// message: after each commit, a client gets {"acknowledged":N}, where N counts its messages on this connection that
	// are committed. With mode listen.
	Acknowledge string `json:"acknowledge" default:"none" validate:"inclusion=none|message"`
	// Maximum size of a message in bytes. With mode connect longer messages are skipped. With mode listen the client is
	// disconnected.
	MaxMessage int64 `json:"message.maxBytes" default:"1048576" validate:"gt=0"`
	// Maximum number of messages without acknowledgement. At the limit the source stops reading.
	MaxMessages int `json:"limit.messages" default:"1000" validate:"gt=0"`
	// Maximum total size in bytes of messages without acknowledgement. At the limit the source stops reading.
	MaxBytes int64 `json:"limit.bytes" default:"33554432" validate:"gt=0"`
}

func (s *sourceSettings) check() error {
	wrong := func(setting, message string) error { return sdk.SettingError{Setting: setting, Message: message} }
	switch {
	case s.listens() && s.Subscribe != "":
		return wrong("subscribe", "needs mode connect")
	case !s.listens() && s.Acknowledge != "none":
		return wrong("acknowledge", "needs mode listen")
	case s.MaxMessage > s.MaxBytes:
		return wrong("message.maxBytes", "must be at most limit.bytes")
	}
	return s.endpointSettings.check()
}

// Source receives messages from a server, or from clients.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	network  dialer // nil: the network of this host
	receiver *receiver
	latest   progress.Latest
	server   *server // nil with mode connect

	cancel context.CancelFunc // ends run; nil with mode listen
	ended  chan struct{}      // closed when run has ended

	mu  sync.Mutex
	err error // guarded by mu: why run has ended
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+httpclient.Descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, s.settings.check)
}

// Open starts connecting in the background, or listening. The protocol has no positions: every position of this source
// is valid.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	numbers, err := common.NewNumbers(pos)
	if err != nil {
		return err
	}
	s.receiver = &receiver{settings: &s.settings, log: sdk.Logger(ctx),
		pending: common.NewRequests(ctx, s.settings.MaxMessages, s.settings.MaxBytes, numbers)}
	if s.settings.listens() {
		s.server, err = s.settings.listen(ctx, s.serve)
		return err
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.ended = make(chan struct{})
	go func() { defer close(s.ended); s.run(ctx) }()
	return nil
}

// serve receives messages from a client.
func (s *Source) serve(c *conn, r *http.Request) {
	metadata := record.Metadata{}
	metadata.Set("websocket.remoteAddress", r.RemoteAddr)
	metadata.Set("websocket.path", record.ValidName(r.URL.Path))
	if p := c.ws.Subprotocol(); p != "" {
		metadata.Set("websocket.subprotocol", p)
	}
	if err := s.receiver.serve(c, metadata); !errors.Is(err, errStopped) {
		s.receiver.log.Info("a client has left", "remote", r.RemoteAddr, "err", err)
	}
}

// steady is the time for which a connection must last, so that the pauses start again from the shortest one: a server
// may accept a connection only to close it with its reason.
const steady = 10 * time.Second

// run connects, and reconnects with backoff after each lost connection.
func (s *Source) run(ctx context.Context) {
	common.Repeat(ctx, func(works func()) error { return s.session(ctx, works) }, func(err error) bool {
		if errors.As(err, new(deniedError)) || sdk.Panicked(err) {
			s.fail(err)
			return false
		}
		s.latest.Note("messages were missed: " + err.Error())
		s.receiver.log.Warn("cannot receive, reconnecting; messages sent in the meantime are lost", "err", err)
		return true
	})
}

// fail makes Read return err after the received messages.
func (s *Source) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.receiver.pending.Close()
}

// session receives messages over one connection.
func (s *Source) session(ctx context.Context, works func()) error {
	c, err := s.settings.dial(ctx, s.network)
	if err != nil {
		return err
	}
	for line := range strings.Lines(s.settings.Subscribe) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := c.send(ctx, false, []byte(line)); err != nil {
			err = c.explain(err)
			c.drop()
			return err
		}
	}
	s.latest.Note("")
	metadata := record.Metadata{}
	metadata.Set("websocket.url", plain(s.settings.URL))
	if p := c.ws.Subprotocol(); p != "" {
		metadata.Set("websocket.subprotocol", p)
	}
	began := time.Now()
	err = s.receiver.serve(c, metadata)
	if time.Since(began) >= steady {
		works()
	}
	return err
}

// plain returns a URL without its query, which may have a secret.
func plain(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// MaxUnacked implements sdk.LimitedSource: at this number of unacknowledged messages the source stops reading.
func (s *Source) MaxUnacked() int { return s.settings.MaxMessages }

// maxRead is the approximate number of records that one Read returns.
const maxRead = 1000

// Read returns messages as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	records, err := s.receiver.pending.Next(ctx, maxRead)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err != nil {
		err = s.err
	}
	return records, err
}

// Ack makes room for as many further messages, and acknowledges them if clients wait for that.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.receiver.pending.Ack(len(positions))
	return nil
}

// Progress reports the number of unacknowledged messages, why the source receives nothing if it is not connected, and
// whether messages were skipped.
func (s *Source) Progress() progress.Report {
	r := s.latest.Report()
	if s.receiver == nil {
		return r
	}
	n := s.receiver.pending.Waits()
	if r.Records, r.Endless = &n, true; s.server != nil {
		r.At = time.Now()
	}
	r.Skipped = s.receiver.skips.List()
	return r
}

// Teardown sends the last acknowledgements, and closes the connections.
func (s *Source) Teardown(ctx context.Context) (err error) {
	if s.receiver == nil {
		return nil
	}
	s.receiver.pending.Close()
	if s.cancel != nil {
		s.cancel()
		<-s.ended
	}
	if s.server != nil {
		err = s.server.close(ctx)
	}
	s.receiver.running.Wait()
	s.receiver.pending.Free()
	return err
}
