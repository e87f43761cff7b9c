package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// connectTimeout bounds the time for connecting to one host, if the URL has no timeout.
const connectTimeout = 15 * time.Second

// Connect opens a session with params in addition to the parameters of url.
func Connect(ctx context.Context, url string, params map[string]string) (*pgconn.PgConn, error) {
	return connect(ctx, url, params, "", nil)
}

// ConnectAs opens a session with password in place of the password of url.
func ConnectAs(ctx context.Context, url, password string) (*pgconn.PgConn, error) {
	return connect(ctx, url, nil, password, nil)
}

func connect(
	ctx context.Context, url string, params map[string]string, password string,
	dialing func(pgconn.DialFunc) pgconn.DialFunc,
) (*pgconn.PgConn, error) {
	c, err := ParseConfig(ctx, url)
	if err != nil {
		return nil, err
	}
	c.Password = cmp.Or(password, c.Password)
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "conduit"
	}
	for k, v := range params {
		c.RuntimeParams[k] = v
	}
	dialer := &net.Dialer{KeepAlive: 15 * time.Second, Timeout: c.ConnectTimeout}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := checkSocket(ctx, network, address); err != nil { // a link may have replaced it since
			return nil, err
		}
		return dialer.DialContext(ctx, network, address)
	}
	if dialing != nil {
		c.DialFunc = dialing(c.DialFunc)
	}
	c.MaxProtocolMessageBodyLen = int(peer.MaxMessage())
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(peer.NewReader(r, &peer.Postgres{}), w)
	}
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to PostgreSQL: %w", withoutRepeats(withoutURL(err, url)))
	}
	return conn, nil
}

// withoutRepeats removes repetitions from a connection error of pgx, which tries each address of the server with TLS
// and without: usually both attempts fail for the same reason.
func withoutRepeats(err error) error {
	var kept []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return err
	}
	text := kept[0] // "failed to connect to …:"
	if len(kept) > 1 {
		text += " " + strings.Join(kept[1:], "; ")
	}
	return connectError{err, text}
}

// connectError is an error with a shorter text.
type connectError struct {
	error
	text string
}

func (e connectError) Error() string { return e.text }

// Unwrap returns the complete error.
func (e connectError) Unwrap() error { return e.error }

// Close ends a session without waiting for long.
func Close(conn *pgconn.PgConn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// Rows runs a query with arguments as text and returns its rows as text. NULL is "".
func Rows(ctx context.Context, conn *pgconn.PgConn, sql string, args ...string) ([][]string, error) {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	r := conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	all := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		for _, v := range row {
			all[i] = append(all[i], string(v))
		}
	}
	return all, nil
}

// Row returns the only row of a query, or nil if there is none.
func Row(ctx context.Context, conn *pgconn.PgConn, sql string, args ...string) ([]string, error) {
	all, err := Rows(ctx, conn, sql, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// Execute runs statements without results.
func Execute(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	return conn.Exec(ctx, sql).Close()
}

// Code returns the SQLSTATE of a server error, and "" for any other error.
func Code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Duplicated reports whether err says that a row of this table exists already. The table has no schema.
func Duplicated(err error, table string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && pg.TableName == table
}

// SQLSTATEs that the connector handles.
const (
	CodeUndefinedObject = "42704"
	CodeDuplicateObject = "42710"
	CodeObjectInUse     = "55006"
	CodePrivilege       = "42501"
	CodeNoFunction      = "42883"
	CodeNotPrerequisite = "55000" // object not in prerequisite state: an invalidated slot, or wal_level
	CodeSerialization   = "40001"
	CodeDeadlock        = "40P01"
	CodeReadOnly        = "25006"
	CodeUndefinedTable  = "42P01"
	CodeUndefinedColumn = "42703"
	CodeInvalidPassword = "28P01"
	CodeInvalidAuth     = "28000"
	classConnection     = "08"
	classResources      = "53"
	classOperator       = "57" // the server is stopping, or a person ended the session
	classSystem         = "58"
)

// ErrAgain reports a failure that may be transient.
var ErrAgain = errors.New("temporary error")

// Transient reports whether err is an error of the network or of a server that will recover, so that reconnecting may
// help.
func Transient(err error) bool {
	c := Code(err)
	if c == "" {
		var network net.Error
		var connecting *pgconn.ConnectError
		return errors.As(err, &network) || errors.As(err, &connecting) || errors.Is(err, io.EOF) ||
			errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, net.ErrClosed) || errors.Is(err, ErrAgain)
	}
	switch c[:2] {
	case classConnection, classResources, classOperator, classSystem:
		return true
	}
	return c == CodeSerialization || c == CodeDeadlock || c == CodeReadOnly
}

// List joins names for a sentence.
func List(names []string) string { return strings.Join(names, ", ") }
