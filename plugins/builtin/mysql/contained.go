package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// contained is a driver.Connector whose connections turn a panic of the driver into an error. The driver panics on
// malformed answers, and database/sql calls it in its own goroutines, where a panic ends the process.
type contained struct {
	driver.Connector
	latest atomic.Pointer[peer.MySQLConn] // the newest connection
}

// Connect implements driver.Connector.
func (c *contained) Connect(ctx context.Context) (made driver.Conn, err error) {
	defer func() {
		if v := recover(); v != nil {
			made, err = nil, malformed(v)
		}
	}()
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	s, ok := inner.(driverConn)
	if !ok {
		return nil, errors.Join(errors.New("cannot use the driver of MySQL: it lacks methods"), inner.Close())
	}
	return &containedConn{driverConn: s, connector: c}, nil
}

// explain replaces the error of the driver with the peer's violation of the protocol, if there was one.
func (c *contained) explain(err error) error {
	conn := c.latest.Load()
	if conn == nil || conn.Err() == nil || !errors.Is(err, mysql.ErrInvalidConn) && !errors.Is(err, driver.ErrBadConn) {
		return err
	}
	return fmt.Errorf("%w: %w", mysql.ErrInvalidConn, conn.Err())
}

func malformed(panicked any) error {
	violation := &peer.Error{Protocol: "MySQL", Reason: fmt.Sprintf("the driver panicked: %v", panicked)}
	return fmt.Errorf("%w: %w", mysql.ErrInvalidConn, violation)
}

// driverConn has the interfaces that a connection of the driver implements.
type driverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type containedConn struct {
	driverConn
	connector *contained
	broken    bool // by a panic
}

// ended recovers from a panic. Every method that reads answers defers it.
func (c *containedConn) ended(err *error) {
	if v := recover(); v != nil {
		c.broken, *err = true, malformed(v)
		return
	}
	if *err != nil {
		*err = c.connector.explain(*err)
	}
}

// IsValid implements driver.Validator.
func (c *containedConn) IsValid() bool { return !c.broken && c.driverConn.IsValid() }

// Close implements driver.Conn.
func (c *containedConn) Close() (err error) {
	defer c.ended(&err)
	return c.driverConn.Close()
}

// ResetSession implements driver.SessionResetter.
func (c *containedConn) ResetSession(ctx context.Context) (err error) {
	if c.broken {
		return driver.ErrBadConn
	}
	defer c.ended(&err)
	return c.driverConn.ResetSession(ctx)
}

// Ping implements driver.Pinger.
func (c *containedConn) Ping(ctx context.Context) (err error) {
	defer c.ended(&err)
	return c.driverConn.Ping(ctx)
}

// BeginTx implements driver.ConnBeginTx.
func (c *containedConn) BeginTx(ctx context.Context, o driver.TxOptions) (t driver.Tx, err error) {
	defer c.ended(&err)
	if t, err = c.driverConn.BeginTx(ctx, o); err != nil {
		return nil, err
	}
	return &containedTx{t, c}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *containedConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (r driver.Result, err error) {
	defer c.ended(&err)
	return c.driverConn.ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c *containedConn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (r driver.Rows, err error) {
	defer c.ended(&err)
	return c.rows(c.driverConn.QueryContext(ctx, query, args))
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *containedConn) PrepareContext(ctx context.Context, query string) (s driver.Stmt, err error) {
	defer c.ended(&err)
	if s, err = c.driverConn.PrepareContext(ctx, query); err != nil {
		return nil, err
	}
	own, ok := s.(statement)
	if !ok {
		return nil, errors.New("cannot use the driver of MySQL: its statements lack methods")
	}
	return &containedStmt{own, c}, nil
}

func (c *containedConn) rows(r driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	own, ok := r.(driver.RowsNextResultSet)
	if !ok {
		return nil, errors.New("cannot use the driver of MySQL: its rows lack methods")
	}
	return &containedRows{own, c}, nil
}

// statement has the interfaces that a prepared statement of the driver implements.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
}

type containedStmt struct {
	statement
	conn *containedConn
}

// Close implements driver.Stmt.
func (s *containedStmt) Close() (err error) {
	defer s.conn.ended(&err)
	return s.statement.Close()
}

// ExecContext implements driver.StmtExecContext.
func (s *containedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	defer s.conn.ended(&err)
	return s.statement.ExecContext(ctx, args)
}

// QueryContext implements driver.StmtQueryContext.
func (s *containedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (r driver.Rows, err error) {
	defer s.conn.ended(&err)
	return s.conn.rows(s.statement.QueryContext(ctx, args))
}

type containedRows struct {
	driver.RowsNextResultSet
	conn *containedConn
}

// Next implements driver.Rows.
func (r *containedRows) Next(dest []driver.Value) (err error) {
	defer r.conn.ended(&err)
	return r.RowsNextResultSet.Next(dest)
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *containedRows) NextResultSet() (err error) {
	defer r.conn.ended(&err)
	return r.RowsNextResultSet.NextResultSet()
}

// Close implements driver.Rows.
func (r *containedRows) Close() (err error) {
	defer r.conn.ended(&err)
	return r.RowsNextResultSet.Close()
}

type containedTx struct {
	driver.Tx
	conn *containedConn
}

// Commit implements driver.Tx.
func (t *containedTx) Commit() (err error) {
	defer t.conn.ended(&err)
	return t.Tx.Commit()
}

// Rollback implements driver.Tx.
func (t *containedTx) Rollback() (err error) {
	defer t.conn.ended(&err)
	return t.Tx.Rollback()
}
