package redis

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// serverSettings are the settings for the connection to a server, on both sides.
type serverSettings struct {
	// redis://HOST:PORT/DATABASE, or rediss:// for TLS.
	URL string `json:"url" validate:"required"`
	// User. Default: the user named default.
	Username string `json:"auth.username"`
	// Password. By reference, such as ${file:/etc/conduit/redis-password}.
	Password string `json:"auth.password"`
	// Timeout of connecting and of every response of the server.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`

	common.TLS
}

func (s *serverSettings) check() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil, u.Scheme != "redis" && u.Scheme != "rediss", u.Hostname() == "":
		return sdk.SettingError{Setting: "url", Message: "must be redis://HOST:PORT or rediss://HOST:PORT"}
	case u.User != nil:
		return sdk.SettingError{Setting: "url", Message: "must not contain a user: set auth.username and auth.password"}
	}
	if _, err := database(u); err != nil {
		return err
	}
	_, err = s.Client()
	return err
}

func database(u *url.URL) (int, error) {
	path := strings.Trim(u.Path, "/")
	if path == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return 0, sdk.SettingError{Setting: "url",
			Message: "must have the number of a database as its path, such as /0"}
	}
	return n, nil
}

// dial connects and logs in.
func (s *serverSettings) dial(ctx context.Context) (redis.Conn, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	db, err := database(u)
	if err != nil {
		return nil, err
	}
	config, err := s.Client()
	if err != nil {
		return nil, err
	}
	config.ServerName = u.Hostname()
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if u.Scheme != "rediss" {
		config = nil
	}
	c, err := redis.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port),
		redis.DialUsername(s.Username), redis.DialPassword(s.Password), redis.DialDatabase(db),
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialChecked(ctx, network, address, config)
		}),
		redis.DialReadTimeout(s.Timeout), redis.DialWriteTimeout(s.Timeout))
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	return c, nil
}

// dialChecked connects, with TLS if config is not nil. The client allocates as much memory as a reply announces, so the
// connection checks replies first.
func dialChecked(ctx context.Context, network, address string, config *tls.Config) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if config != nil {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("cannot begin TLS: %w", err)
		}
		conn = secured
	}
	return peer.NewConn(conn, &peer.Redis{}), nil
}

// isReply reports whether the error is a reply of the server, which leaves the connection intact.
func isReply(err error) bool { return errors.As(err, new(redis.Error)) }

// isDenial reports whether the server refuses the client: its credentials or its rights.
func isDenial(err error) bool {
	return hasCode(err, "NOAUTH", "WRONGPASS", "NOPERM", "ERR invalid password")
}

// passes reports whether a retry of the command may succeed.
func passes(err error) bool {
	return hasCode(err, "OOM", "LOADING", "READONLY", "MISCONF", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN",
		"NOREPLICAS", "UNKILLABLE")
}

func hasCode(err error, codes ...string) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	for _, code := range codes {
		if strings.HasPrefix(string(reply), code) {
			return true
		}
	}
	return false
}

// keyOf returns a key for this connector. It is the same after a restart.
func keyOf(ctx context.Context, prefix string) string {
	const digits = 16
	sum := sha256.Sum256([]byte(sdk.EnvFrom(ctx).ConnectorID))
	return prefix + ":" + hex.EncodeToString(sum[:])[:digits]
}
