package mqtt

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// serverSettings are the settings for the connection to a server, on both sides.
type serverSettings struct {
	// mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS.
	URL string `json:"url" validate:"required"`
	// Client id, unique at the server. Default: a stable id derived from the connector's id.
	ClientID string `json:"clientID" literal:"true"`
	// User.
	Username string `json:"auth.username"`
	// Password. By reference, such as ${file:/etc/conduit/mqtt-password}.
	Password string `json:"auth.password"`
	// Keep-alive interval: after this time without a packet the client sends a ping. Without a response within another
	// half of it the connection is closed.
	KeepAlive time.Duration `json:"keepAlive" default:"30s" validate:"gt=0"`
	// Timeout of connecting and of every response of the server.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`

	common.TLS
}

func (s *serverSettings) check() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "mqtt" && u.Scheme != "mqtts" || u.Hostname() == "" {
		return sdk.SettingError{Setting: "url", Message: "must be mqtt://HOST:PORT or mqtts://HOST:PORT"}
	}
	if u.User != nil {
		return sdk.SettingError{Setting: "url", Message: "must not contain a user: set auth.username and auth.password"}
	}
	_, err = s.Client()
	return err
}

// id returns the client name. Its letters and digits are valid for every server. A server disconnects a client when
// another one with its name connects, so a replay has another name.
func (s *serverSettings) id(ctx context.Context) string {
	env := sdk.EnvFrom(ctx)
	name := env.ConnectorID
	if env.Replay {
		name += "/replay"
	}
	if s.ClientID != "" && env.Replay {
		return s.ClientID + "-replay"
	}
	if s.ClientID != "" {
		return s.ClientID
	}
	const digits = 16 // with the prefix at most 23, the length that every server accepts
	sum := sha256.Sum256([]byte(name))
	return "conduit" + hex.EncodeToString(sum[:])[:digits]
}

func (s *serverSettings) dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: s.Timeout}
	if u.Scheme == "mqtt" {
		return dialer.DialContext(ctx, "tcp", address(u, "1883"))
	}
	config, err := s.Client()
	if err != nil {
		return nil, err
	}
	config.ServerName = u.Hostname()
	conn, err := (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address(u, "8883"))
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func address(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// deniedError reports that the server refuses the client: its name, its credentials or its rights.
type deniedError struct{ error }

// connection is a connected client. Its Done channel is closed when the connection is lost.
type connection struct {
	*paho.Client
	conn    *buffered
	session *session
	ack     *paho.Connack // sent by the server
}

// connect dials the server and performs the MQTT handshake.
func (s *serverSettings) connect(
	ctx context.Context, state *session, config paho.ClientConfig, c *paho.Connect,
) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the server: %w", err)
	}
	made := &connection{conn: newBuffered(peer.NewConn(conn, &peer.MQTT{})), session: state}
	config.Conn, config.Session, config.PacketTimeout = made.conn, made.session, s.Timeout
	made.Client = paho.NewClient(config)
	c.KeepAlive = uint16(min(max(s.KeepAlive/time.Second, 1), 1<<16-1))
	if s.Username != "" || s.Password != "" {
		c.UsernameFlag, c.Username = s.Username != "", s.Username
		c.PasswordFlag, c.Password = s.Password != "", []byte(s.Password)
	}
	ack, err := made.Connect(ctx, c)
	switch {
	case err != nil && ack != nil && ack.ReasonCode >= packets.ConnackUnspecifiedError:
		err = fmt.Errorf("the server refused the connection: %s", reason(ack))
		if !passes(ack.ReasonCode) {
			err = deniedError{err}
		}
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	made.ack = ack
	go func() {
		<-made.Done()
		_ = made.session.Close() // unblocks callers that wait for an answer of the server
	}()
	return made, nil
}

func reason(ack *paho.Connack) string {
	text := (&packets.Connack{ReasonCode: ack.ReasonCode}).Reason()
	if text == "" {
		text = fmt.Sprintf("code 0x%x", ack.ReasonCode)
	}
	return text
}

// passes reports whether the server may accept the connection later.
func passes(code byte) bool {
	switch code {
	case packets.ConnackServerUnavailable, packets.ConnackServerBusy, packets.ConnackConnectionRateExceeded,
		packets.ConnackUnspecifiedError, packets.ConnackQuotaExceeded:
		return true
	}
	return false
}

var errLost = errors.New("the connection was lost")
