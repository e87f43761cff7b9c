package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type (
	tlsSettings   = common.TLS
	tableSettings = sqlsink.Settings
)

// server holds the settings for connecting to a server.
type server struct {
	// Server, as HOST:PORT or HOST; the default port is 3306.
	Address string `json:"address" validate:"required"`
	// Database of the tables.
	Database string `json:"database" validate:"required"`
	// User to log in as.
	User string `json:"user" validate:"required"`
	// Password, by reference: ${file:/etc/conduit/mysql-password}.
	Password string `json:"password"`
	// Timeout of connecting and of every response. While a source reads rows: maximum silence of a server that does not
	// work on the response.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`
	// Whether to connect with TLS only. The certificate of the server is verified, unless tls.insecureSkipVerify is
	// true.
	TLS bool `json:"tls.enabled" default:"false"`
	tlsSettings
}

// config returns the configuration of the driver.
func (s *server) config() (*mysql.Config, error) {
	if err := common.CheckAddress("address", s.Address); err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	host, addr := s.endpoint()
	c.Net, c.Addr, c.DBName, c.User, c.Passwd = "tcp", addr, s.Database, s.User, s.Password
	var err error
	c.Timeout, c.ReadTimeout, c.WriteTimeout = s.Timeout, s.Timeout, s.Timeout
	c.ClientFoundRows, c.RejectReadOnly, c.MaxAllowedPacket, c.Logger = true, true, 0, quiet{}
	// Values that do not fit are errors, and times are in UTC, regardless of the server's defaults.
	c.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"time_zone": "'+00:00'"}
	if !s.TLS {
		if s.Cert != "" || s.CA != "" {
			return nil, sdk.SettingError{Setting: "tls.enabled", Message: "must be true with tls.cert or tls.ca"}
		}
		return c, nil
	}
	if c.TLS, err = s.Client(); err != nil {
		return nil, err
	}
	c.TLS.ServerName = host
	return c, nil
}

// endpoint returns the host, and the address with the port.
func (s *server) endpoint() (host, addr string) {
	if host, _, err := net.SplitHostPort(s.Address); err == nil {
		return host, s.Address
	}
	return s.Address, net.JoinHostPort(s.Address, "3306")
}

// quiet discards the log output of the driver, which also returns its errors.
type quiet struct{}

// Print implements mysql.Logger.
func (quiet) Print(...any) {}

// open connects to the server.
func (s *server) open(ctx context.Context) (*sql.DB, error) { return s.openWith(ctx, nil) }

// openWith connects with dial; nil means the default dialer.
func (s *server) openWith(
	ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error),
) (*sql.DB, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	login := &binlog.Config{Addr: c.Addr, User: s.User, Password: s.Password, Database: s.Database,
		TLS: c.TLS, Timeout: s.Timeout, Dial: dial}
	connector := &contained{}
	c.Passwd, c.TLS = "", nil // the driver gets a session that is logged in
	c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := binlog.Session(ctx, login)
		if err != nil {
			return nil, plain(err)
		}
		connector.latest.Store(conn.MySQLConn)
		return conn, nil
	}
	if connector.Connector, err = mysql.NewConnector(c); err != nil {
		return nil, fmt.Errorf("cannot connect to MySQL: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot connect to MySQL: %w", err)
	}
	return db, nil
}
