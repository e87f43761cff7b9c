package nats

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// serverSettings are the settings for the connection to a server, on both sides.
type serverSettings struct {
	// nats://HOST:PORT of one server or several, separated by commas; tls:// for TLS.
	URL string `json:"url" validate:"required"`
	// jetstream: streams, which store messages. core: subjects; messages without a subscriber are lost.
	Type string `json:"type" default:"jetstream" validate:"inclusion=jetstream|core"`
	// User.
	Username string `json:"auth.username"`
	// Password. By reference, such as ${file:/etc/conduit/nats-password}.
	Password string `json:"auth.password"`
	// Token. By reference.
	Token string `json:"auth.token"`
	// Seed of an NKey. By reference.
	NKey string `json:"auth.nkey"`
	// Content of a file with a JWT and its key. By reference, such as ${file:/etc/conduit/nats.creds}.
	Credentials string `json:"auth.credentials"`
	// Timeout of connecting and of every response of the server.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`

	common.TLS
}

func (s *serverSettings) check() error {
	for one := range strings.SplitSeq(s.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" {
			return sdk.SettingError{Setting: "url",
				Message: "must be nats://HOST:PORT or tls://HOST:PORT, several separated by commas"}
		}
		if u.User != nil {
			return sdk.SettingError{Setting: "url",
				Message: "must not contain a user: set auth.username and auth.password"}
		}
	}
	if s.NKey != "" {
		if _, err := nkeys.FromSeed([]byte(strings.TrimSpace(s.NKey))); err != nil {
			return sdk.SettingError{Setting: "auth.nkey",
				Message: "must be the seed of an NKey, such as ${file:/etc/conduit/nats.nk}"}
		}
	}
	_, err := s.Client()
	return err
}

// id returns hexadecimal digits derived from the connector's id.
func id(ctx context.Context) string {
	const bytes = 8
	sum := sha256.Sum256([]byte(sdk.EnvFrom(ctx).ConnectorID))
	return hex.EncodeToString(sum[:bytes])
}

// deniedError reports that the server refuses the client or its request. A retry does not help.
type deniedError struct{ error }

// conn is a connection without automatic reconnect.
type conn struct {
	*client.Conn
	lost <-chan struct{} // closed when the connection is lost or closed
}

// explain adds to err the protocol violation of the server, if that caused the loss of the connection.
func (c *conn) explain(err error) error {
	var violation *peer.Error
	if err != nil && errors.As(c.LastError(), &violation) && !errors.Is(err, violation) {
		return fmt.Errorf("%w: %w", err, violation)
	}
	return err
}

// failure returns the reason for the loss of the connection.
func (c *conn) failure() error {
	if err := c.LastError(); err != nil {
		return fmt.Errorf("the connection was lost: %w", err)
	}
	return errors.New("the connection was lost")
}

// connect connects to the server. The end of ctx ends the attempt, even while the server is silent, and does not end a
// connection.
func (s *serverSettings) connect(ctx context.Context) (*conn, error) {
	lost := make(chan struct{})
	lives, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, end)()
	log := sdk.Logger(ctx)
	options := []client.Option{
		client.Name("conduit " + sdk.EnvFrom(ctx).ConnectorID), client.Timeout(s.Timeout), client.NoReconnect(),
		client.PingInterval(s.Timeout), client.MaxPingsOutstanding(1),
		client.ClosedHandler(func(*client.Conn) {
			close(lost)
			end()
		}),
		client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) {
			if !errors.Is(err, client.ErrSlowConsumer) { // sources report slow consumers themselves
				log.Warn("the NATS server reported an error", "err", err)
			}
		}),
	}
	secure, err := s.secure()
	if err != nil {
		end()
		return nil, err
	}
	dialer := &peer.NATSDialer{Context: lives, Timeout: s.Timeout, TLS: secure}
	options = append(options, client.SkipHostLookup(), client.SetCustomDialer(dialer))
	if secure != nil {
		options = append(options, client.Secure(secure))
	}
	c, err := client.Connect(s.URL, append(options, s.identity()...)...)
	switch {
	case err == nil:
		return &conn{c, lost}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isDenied(err):
		return nil, deniedError{fmt.Errorf("the server refused the connection: %w", err)}
	}
	return nil, fmt.Errorf("cannot reach the server: %w", err)
}

func isDenied(err error) bool {
	for _, one := range []error{client.ErrAuthorization, client.ErrAuthExpired, client.ErrAuthRevoked,
		client.ErrAccountAuthExpired, client.ErrPermissionViolation} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// identity returns the options that authenticate the client.
func (s *serverSettings) identity() []client.Option {
	switch {
	case s.Credentials != "":
		return []client.Option{client.UserCredentialBytes([]byte(s.Credentials))}
	case s.NKey != "":
		pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(s.NKey)))
		if err != nil {
			return nil // check reports this error
		}
		public, _ := pair.PublicKey() // fails only without a key
		return []client.Option{client.Nkey(public, pair.Sign)}
	case s.Token != "":
		return []client.Option{client.Token(s.Token)}
	case s.Username != "" || s.Password != "":
		return []client.Option{client.UserInfo(s.Username, s.Password)}
	}
	return nil
}

// secure returns the TLS configuration if the URL or the settings require TLS, otherwise nil.
func (s *serverSettings) secure() (*tls.Config, error) {
	if !strings.Contains(s.URL, "tls://") && s.CA == "" && s.Cert == "" {
		return nil, nil // the server may still require TLS
	}
	return s.Client()
}
