package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// serverSettings are the settings for the connection to a server, on both sides.
type serverSettings struct {
	// amqp://HOST:PORT, or several nodes separated by commas; amqps:// for TLS.
	URL string `json:"url" validate:"required"`
	// Virtual host.
	VHost string `json:"vhost" default:"/" literal:"true"`
	// User. Default: the subject of tls.cert if it is set, otherwise guest.
	Username string `json:"auth.username"`
	// Password. By reference, such as ${file:/etc/conduit/rabbitmq-password}.
	Password string `json:"auth.password"`
	// Heartbeat interval. A connection without a sign of life for twice this time is closed.
	Heartbeat time.Duration `json:"heartbeat" default:"10s" validate:"gt=0"`
	// Timeout of connecting and of every response of the server.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`

	common.TLS
}

func (s *serverSettings) check() error {
	for one := range strings.SplitSeq(s.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.Hostname() == "" {
			return sdk.SettingError{Setting: "url",
				Message: "must be amqp://HOST:PORT or amqps://HOST:PORT, several separated by commas"}
		}
		if u.User != nil {
			return sdk.SettingError{Setting: "url",
				Message: "must not contain a user: set auth.username and auth.password"}
		}
		if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return sdk.SettingError{Setting: "url", Message: "must have nothing after the port: set vhost"}
		}
	}
	if s.Heartbeat < time.Second { // the protocol counts seconds
		return sdk.SettingError{Setting: "heartbeat", Message: "must be at least 1s"}
	}
	_, err := s.Client()
	return err
}

// deniedError reports that the server refuses the client or its request. A retry does not help.
type deniedError struct{ error }

// Unwrap returns the reason.
func (e deniedError) Unwrap() error { return e.error }

// socket is a connection to a server. Unlike the client's own supervision, it notices a dead server while a message is
// being sent, and it can stop reading while the server continues to get heartbeats.
type socket struct {
	conn    net.Conn
	checker *peer.AMQP
	checked *peer.Conn
	room    func() // waits until more data can be taken; called while hold is true
	hold    atomic.Bool
	idle    atomic.Int64 // time without data after which the server is dead; 0: no limit
}

// Read implements io.Reader. It closes the connection on an error: the client would first wait for a message that it is
// sending.
func (s *socket) Read(p []byte) (int, error) {
	if s.hold.Load() {
		s.room()
	}
	deadline := time.Time{}
	if idle := s.idle.Load(); idle > 0 {
		deadline = time.Now().Add(time.Duration(idle))
	}
	_ = s.conn.SetReadDeadline(deadline) // fails only on a closed connection
	n, err := s.checked.Read(p)
	if err != nil {
		_ = s.conn.Close()
	}
	return n, err
}

// Write implements io.Writer.
func (s *socket) Write(p []byte) (int, error) { return s.conn.Write(p) }

// Close implements io.Closer.
func (s *socket) Close() error { return s.conn.Close() }

// connection is a connection without automatic reconnect.
type connection struct {
	*amqp.Connection
	socket  *socket
	lost    chan *amqp.Error // gets the reason, and is closed when the connection is lost or closed
	blocked atomic.Bool      // the server does not accept messages for now
	changed notify.Signal    // blocked has changed
}

// connect connects to the first of the nodes that answers. room delays reading while hold of the socket is true.
func (s *serverSettings) connect(ctx context.Context, room func()) (c *connection, err error) {
	for one := range strings.SplitSeq(s.URL, ",") {
		if c, err = s.connectTo(ctx, strings.TrimSpace(one), room); err == nil || ctx.Err() != nil ||
			errors.As(err, new(deniedError)) {
			return c, err
		}
	}
	return nil, err
}

func (s *serverSettings) connectTo(ctx context.Context, one string, room func()) (*connection, error) {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	conn, err := s.dial(limited, one)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the server: %w", err)
	}
	checker := peer.NewAMQP()
	made := &connection{changed: notify.NewSignal(), lost: make(chan *amqp.Error, 1),
		socket: &socket{conn: conn, checker: checker, checked: peer.NewConn(conn, checker), room: room}}
	defer context.AfterFunc(limited, func() { _ = conn.Close() })()
	properties := amqp.Table{"product": "conduit", "connection_name": "conduit " + sdk.EnvFrom(ctx).ConnectorID}
	made.Connection, err = amqp.Open(made.socket, amqp.Config{Vhost: s.VHost, Locale: "en_US", Properties: properties,
		SASL:      []amqp.Authentication{&login{s.identity(), properties}},
		FrameSize: peer.MaxAMQPFrame, ChannelMax: 16, Heartbeat: s.Heartbeat})
	if err == nil {
		err = limited.Err()
	}
	if err != nil {
		_ = conn.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case limited.Err() != nil:
			return nil, fmt.Errorf("the server did not respond within %s", s.Timeout)
		}
		return nil, s.refused(made.explain(err))
	}
	made.socket.idle.Store(int64(2 * made.Config.Heartbeat))
	made.NotifyClose(made.lost)
	go made.watch(ctx, made.NotifyBlocked(make(chan amqp.Blocking, 1)))
	return made, nil
}

// dial connects to a node. An error about TLS names the remedy.
func (s *serverSettings) dial(ctx context.Context, one string) (net.Conn, error) {
	u, err := url.Parse(one)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "amqp":
		port = "5672"
	case port == "":
		port = "5671"
	}
	address := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "amqp" {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	config, err := s.Client()
	if err != nil {
		return nil, err
	}
	config.ServerName = u.Hostname()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		switch {
		case errors.As(err, new(tls.RecordHeaderError)):
			return nil, fmt.Errorf("%w: the port does not speak TLS; use a URL with amqp://, or the port for TLS, "+
				"usually 5671", err)
		case errors.As(err, new(*tls.CertificateVerificationError)):
			return nil, fmt.Errorf("%w: check that tls.ca has the authority of the server's certificate, and that the "+
				"certificate is for the host in url", err)
		}
		return nil, err
	}
	return conn, nil
}

// login is an identity that asks the server to give its reason when it refuses the login. Otherwise the server only
// ends the connection, as a server does that is killed.
type login struct {
	amqp.Authentication
	properties amqp.Table // of the client
}

// Response implements amqp.Authentication. The client calls it after it has set its capabilities, which cannot be
// changed in another way, and before it sends them.
func (l *login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

func (s *serverSettings) identity() amqp.Authentication {
	switch {
	case s.Username != "" || s.Password != "":
		return &amqp.PlainAuth{Username: s.Username, Password: s.Password}
	case s.Cert != "":
		return &amqp.ExternalAuth{}
	}
	return &amqp.PlainAuth{Username: "guest", Password: "guest"}
}

// refused explains an error of the login.
func (s *serverSettings) refused(err error) error {
	var reason *amqp.Error
	if !errors.As(err, &reason) {
		return fmt.Errorf("cannot connect: %w", err)
	}
	switch {
	case reason == amqp.ErrCredentials || reason == amqp.ErrVhost:
		// These are the client's guesses when the server gives no reason.
		return errors.New("the server ended the connection during the login without a reason: it may be starting or " +
			"stopping; otherwise check auth.username, auth.password and vhost")
	case reason == amqp.ErrSASL:
		return deniedError{fmt.Errorf("the server does not offer this kind of login: %w: with tls.cert and without "+
			"auth.username it needs the plugin rabbitmq_auth_mechanism_ssl", err)}
	case reason.Code == amqp.NotAllowed:
		return deniedError{fmt.Errorf("the server refused vhost %q: %w: check vhost, and the permissions of the user",
			s.VHost, err)}
	case reason.Code == amqp.AccessRefused:
		return deniedError{fmt.Errorf("the server refused the login: %w: check auth.username and auth.password; the "+
			"user guest may log in only from the server's own machine", err)}
	}
	return fmt.Errorf("cannot connect: %w", err)
}

// watch keeps blocked up to date until the connection ends.
func (c *connection) watch(ctx context.Context, blocks <-chan amqp.Blocking) {
	log := sdk.Logger(ctx)
	for b := range blocks {
		if b.Active {
			log.Warn("the server does not accept messages for now, waiting", "reason", b.Reason)
		} else {
			log.Info("the server accepts messages again")
		}
		c.blocked.Store(b.Active)
		c.changed.Notify()
	}
}

// explain replaces err by the protocol violation of the server, if that caused the loss of the connection.
func (c *connection) explain(err error) error {
	if violation := c.socket.checked.Err(); violation != nil {
		return violation
	}
	return err
}

// failure returns the error for the loss of the connection, with the reason from lost; nil: unknown.
func (c *connection) failure(reason *amqp.Error) error {
	if reason != nil {
		return c.explain(fmt.Errorf("the connection was lost: %w", reason))
	}
	return c.explain(errors.New("the connection was lost"))
}

// leave closes the connection, and waits for the server until timeout.
func (c *connection) leave(timeout time.Duration) {
	late := time.AfterFunc(timeout, func() { _ = c.socket.Close() })
	defer late.Stop()
	_ = c.Close()
	_ = c.socket.Close()
}
