package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
)

// serverInfo describes a server.
type serverInfo struct {
	maria     bool
	gtids     bool   // MySQL: gtid_mode is ON
	id        string // of the server's data
	variables map[string]string
	user      string // grantee of the privileges, in SQL syntax
}

const variablesQuery = "SHOW GLOBAL VARIABLES WHERE variable_name IN ('version', 'log_bin', 'binlog_format', " +
	"'binlog_row_image', 'binlog_row_value_options', 'gtid_mode', 'server_uuid', 'server_uid', 'server_id', " +
	"'hostname', 'port', 'innodb_native_foreign_keys')"

func identify(ctx context.Context, db *sql.DB) (info serverInfo, err error) {
	info.variables = map[string]string{}
	err = sqlsink.EachRow(ctx, db, variablesQuery, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		info.variables[strings.ToLower(name)] = value
		return err
	})
	if err != nil {
		return info, fmt.Errorf("cannot query the settings of the server: %w", err)
	}
	v := info.variables
	info.maria = strings.Contains(v["version"], "MariaDB")
	info.gtids = v["gtid_mode"] == "ON"
	for _, id := range []string{v["server_uuid"], v["server_uid"],
		v["hostname"] + ":" + v["port"] + ":" + v["server_id"]} {
		if info.id == "" {
			info.id = id
		}
	}
	if err := db.QueryRowContext(ctx, "SELECT current_user()").Scan(&info.user); err != nil {
		return info, fmt.Errorf("cannot query the current user of the server: %w", err)
	}
	if i := strings.LastIndexByte(info.user, '@'); i >= 0 {
		info.user = Quote(info.user[:i]) + "@" + Quote(info.user[i+1:])
	}
	return info, nil
}

// logsCascades reports whether the log has the changes that foreign keys make: MySQL 9.6 and later make them above the
// engine, unless innodb_native_foreign_keys is ON.
func (s *serverInfo) logsCascades() bool { return s.variables["innodb_native_foreign_keys"] == "OFF" }

// check returns an error that lists the changes to the server that reading the log requires.
func (s *serverInfo) check() error {
	v := s.variables
	switch {
	case v["log_bin"] != "ON":
		return errors.New("the server has no binary log: set log_bin and server_id in section [mysqld] of the " +
			"configuration file, and restart the server")
	case v["binlog_format"] != "" && v["binlog_format"] != "ROW":
		return fmt.Errorf("binlog_format is %s, so the binary log has statements instead of rows: run SET GLOBAL "+
			"binlog_format = 'ROW', set it in section [mysqld] of the configuration file, and restart all "+
			"sessions", v["binlog_format"])
	case v["binlog_row_image"] != "" && !strings.HasPrefix(v["binlog_row_image"], "FULL"):
		return fmt.Errorf("binlog_row_image is %s, so the binary log has incomplete rows: run SET GLOBAL "+
			"binlog_row_image = 'FULL', set it in section [mysqld] of the configuration file, and "+
			"restart all sessions",
			v["binlog_row_image"])
	case v["binlog_row_value_options"] != "":
		return fmt.Errorf("binlog_row_value_options is set, so the binary log has incomplete JSON values: run SET " +
			"GLOBAL binlog_row_value_options = '', set it in section [mysqld] of the configuration file, and " +
			"restart all sessions")
	}
	return nil
}

// logFile is a file of the binary log.
type logFile struct {
	name string
	size uint64
}

// logs returns the files of the binary log, the oldest first.
func (s *serverInfo) logs(ctx context.Context, db *sql.DB) (all []logFile, err error) {
	rows, err := db.QueryContext(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return nil, s.forbidden(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var f logFile
		into := make([]any, len(columns))
		for i := range into {
			into[i] = new(sql.RawBytes)
		}
		into[0], into[1] = &f.name, &f.size
		if err := rows.Scan(into...); err != nil {
			return nil, fmt.Errorf("cannot list the binary logs: %w", err)
		}
		all = append(all, f)
	}
	return all, rows.Err()
}

func (s *serverInfo) forbidden(err error) error {
	if !isNumber(err, accessDenied) {
		return fmt.Errorf("cannot list the binary logs: %w", err)
	}
	right := "REPLICATION CLIENT"
	if s.maria {
		right = "BINLOG MONITOR"
	}
	return fmt.Errorf("cannot list the binary logs: %w: run GRANT %s ON *.* TO %s", err,
		right, s.user)
}

// querier is implemented by *sql.DB and *sql.Conn.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// end returns the end of the log.
func (s *serverInfo) end(ctx context.Context, q querier) (p place, err error) {
	p.server = s.id
	// MySQL 8.4 supports only the second statement.
	for _, statement := range []string{"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"} {
		if err = s.status(ctx, q, statement, &p); err == nil {
			break
		}
	}
	if err != nil {
		return p, s.forbidden(err)
	}
	switch {
	case s.maria:
		p.set, err = s.setAt(ctx, q, p.file, p.pos)
	case s.gtids:
		var text string
		if err = q.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&text); err == nil {
			p.set, err = binlog.ParseGTIDSet(text)
		}
	}
	if err != nil {
		return p, fmt.Errorf("cannot query the log position: %w", err)
	}
	return p, nil
}

func (s *serverInfo) status(ctx context.Context, q querier, statement string, p *place) error {
	rows, err := q.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	if len(into) < 2 || !rows.Next() {
		return errors.Join(rows.Err(), errors.New("the server did not return the end of its binary log"))
	}
	into[0], into[1] = &p.file, &p.pos
	return errors.Join(rows.Scan(into...), rows.Err())
}

// setAt returns the GTIDs of the transactions before a place in the log of MariaDB.
func (s *serverInfo) setAt(ctx context.Context, q querier, file string, pos uint64) (binlog.GTIDSet, error) {
	var text sql.NullString
	if err := q.QueryRowContext(ctx, "SELECT BINLOG_GTID_POS(?, ?)", file, pos).Scan(&text); err != nil {
		return binlog.GTIDSet{}, err
	}
	if !text.Valid {
		return binlog.GTIDSet{}, fmt.Errorf("the binary log has no position %s:%s", file, strconv.FormatUint(pos, 10))
	}
	return binlog.ParseGTIDSet(text.String)
}

// beginMaria begins a transaction in MariaDB, which reports where in the log the snapshot stands.
func (s *serverInfo) beginMaria(ctx context.Context, conn *sql.Conn) (at place, err error) {
	if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return at, err
	}
	err = sqlsink.EachRow(ctx, conn, "SHOW STATUS LIKE 'binlog_snapshot_%'", func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		switch strings.ToLower(name) {
		case "binlog_snapshot_file":
			at.file = value
		case "binlog_snapshot_position":
			at.pos, _ = strconv.ParseUint(value, 10, 64)
		}
		return err
	})
	if err != nil {
		return at, err
	}
	if at.file == "" || at.pos == 0 {
		return at, errors.New("the server did not return the log position of the snapshot")
	}
	at.server = s.id
	at.set, err = s.setAt(ctx, conn, at.file, at.pos)
	return at, err
}

// beginMySQL begins a transaction in MySQL while no other session commits. If the user may not lock, or the lock would
// take long, it reads the end of the log first: changes made between the two arrive twice.
func (s *serverInfo) beginMySQL(ctx context.Context, conn *sql.Conn) (at place, err error) {
	locked, err := s.lock(ctx, conn)
	if err != nil {
		return at, err
	}
	if at, err = s.end(ctx, conn); err == nil {
		_, err = conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
	}
	if locked {
		_, unlock := conn.ExecContext(ctx, "UNLOCK TABLES")
		err = errors.Join(err, unlock)
	}
	return at, err
}

// longestLockWait is the longest wait, in seconds, for a lock that blocks writers.
const longestLockWait = 3

// longQueries counts the long-running statements of other sessions that the user may see. The lock would wait for them,
// and all other sessions would wait for the lock, even after it is given up.
const longQueries = "SELECT count(*) FROM information_schema.processlist WHERE command IN ('Query', 'Execute') AND " +
	"time >= ? AND id <> connection_id()"

// lock blocks commits of other sessions, unless the user may not or the wait would block them for long. Without GTIDs,
// failing to lock is an error.
func (s *serverInfo) lock(ctx context.Context, conn *sql.Conn) (locked bool, err error) {
	var running int
	if err := conn.QueryRowContext(ctx, longQueries, longestLockWait).Scan(&running); err != nil {
		return false, err
	}
	err = errLongQueries
	if running == 0 {
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", longestLockWait)); err !=
			nil {
			return false, err
		}
		_, err = conn.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK")
		if _, err := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = DEFAULT"); err != nil {
			return false, err
		}
	}
	denied := isNumber(err, accessDenied) || isNumber(err, accessDeniedUser)
	switch {
	case err == nil:
		return true, nil
	case s.gtids && (denied || isNumber(err, lockWaitTimeout) || errors.Is(err, errLongQueries)):
		return false, nil
	case denied:
		return false, fmt.Errorf("%w: without GTIDs the snapshot needs a short lock: run GRANT RELOAD ON *.* TO %s",
			err, s.user)
	}
	return false, err
}

var errLongQueries = fmt.Errorf("without GTIDs the snapshot needs a short lock, which would block other "+
	"sessions behind statements that have run for more than %d seconds: end these statements, or set gtid_mode "+
	"to ON", longestLockWait)

// checkHistory compares the position with the history of the server. The source never resumes from a position of
// another history.
func (s *Source) checkHistory(ctx context.Context) error {
	all, err := s.server.logs(ctx, s.db)
	if err != nil || s.at.file == "" {
		return err
	}
	here := s.at.server == s.server.id
	var file *logFile
	for i := range all {
		if all[i].name == s.at.file {
			file = &all[i]
		}
	}
	switch {
	case s.server.maria && here:
		return s.checkMaria(ctx, all, file)
	case s.server.maria:
		return nil // MariaDB refuses GTIDs that it does not have
	case s.server.gtids:
		if here {
			if err := s.checkPlace(ctx, file); err != nil {
				return err
			}
		}
		return s.checkExecuted(ctx)
	case !s.at.set.Empty():
		return fmt.Errorf("cannot resume from %s: gtid_mode of the server is not ON: set it to ON, or "+
			"take a new snapshot. %s", s.at.String(), newSnapshot)
	case !here:
		return fmt.Errorf("cannot resume from %s: this is a position in the binary log of server %s, which without "+
			"GTIDs is not valid on server %s: set gtid_mode to ON. %s", s.at.String(), s.at.server,
			s.server.id, newSnapshot)
	case file == nil || s.at.pos > file.size:
		return fmt.Errorf("changes after %s were missed: the server has removed this part of the binary log. %s. Set "+
			"expire_logs_days or binlog_expire_logs_seconds to longer than the source can be stopped",
			s.at.String(), newSnapshot)
	}
	return nil
}

// checkMaria compares the position with the GTIDs at its place in the log of the same MariaDB or, if the log no longer
// has the file, with those before the oldest file. A log that was reset reaches the GTIDs of the position again after
// some time.
func (s *Source) checkMaria(ctx context.Context, all []logFile, file *logFile) error {
	if file == nil && len(all) > 0 {
		found, err := s.server.setAt(ctx, s.db, all[0].name, 4)
		if err != nil || s.at.set.EndsBefore(found) {
			return err
		}
		return fmt.Errorf("changes after %s were missed: the server has removed this part of the binary log, or the "+
			"log was reset (RESET MASTER). %s. Set expire_logs_days or binlog_expire_logs_seconds to longer than the "+
			"source can be stopped",
			s.at.String(), newSnapshot)
	}
	found, err := s.server.setAt(ctx, s.db, s.at.file, s.at.pos)
	if transient(err) {
		return err
	}
	if err != nil || !s.at.set.EndsAt(found) {
		return fmt.Errorf("changes after %s were missed: the binary log has GTID %q at this position, so it was "+
			"reset (RESET MASTER). %s", s.at.String(), found.String(), newSnapshot)
	}
	return nil
}

// checkPlace finds the place of the position in the log of the same MySQL. A log that was reset reaches the GTIDs of
// the position again after some time. file is nil if the log no longer has it.
func (s *Source) checkPlace(ctx context.Context, file *logFile) error {
	anew := fmt.Errorf("changes after %s were missed: the binary log of the server was reset (RESET MASTER). %s",
		s.at.String(), newSnapshot)
	if file == nil {
		_, gone, err := s.server.transactions(ctx, s.db)
		if missing := gone.Missing(s.at.set); err == nil && !missing.Empty() {
			err = anew // the purged file has GTIDs that count as purged
		}
		return err
	}
	if s.at.pos > file.size {
		return anew
	}
	events := fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %d LIMIT 1", strings.ReplaceAll(file.name, "'", "''"),
		max(s.at.pos, 4))
	err := sqlsink.EachRow(ctx, s.db, events, func(rows *sql.Rows) error {
		var info string
		var skipped sql.RawBytes
		err := rows.Scan(&skipped, &skipped, &skipped, &skipped, &skipped, &info)
		if err == nil && s.at.in != "" && !strings.Contains(info, s.at.in) { // the transaction begins at the place
			return anew
		}
		return err
	})
	if isNumber(err, noEventThere) {
		return anew
	}
	return err
}

// checkExecuted compares the position with the executed transactions of MySQL.
func (s *Source) checkExecuted(ctx context.Context) error {
	has, gone, err := s.server.transactions(ctx, s.db)
	if err != nil {
		return err
	}
	return s.compare(has, gone)
}

// transactions returns the transactions that MySQL executed, and the subset that its log no longer has.
func (s *serverInfo) transactions(ctx context.Context, q querier) (has, gone binlog.GTIDSet, err error) {
	var executed, purged string
	if err = q.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged").Scan(&executed,
		&purged); err != nil {
		return has, gone, fmt.Errorf("cannot query the log position: %w", err)
	}
	if has, err = binlog.ParseGTIDSet(executed); err == nil {
		gone, err = binlog.ParseGTIDSet(purged)
	}
	return has, gone, err
}

// compare returns an error if the position has transactions that the server lacks, or lacks some that the server has
// purged.
func (s *Source) compare(has, gone binlog.GTIDSet) error {
	want := s.at.set.Clone()
	if in, err := binlog.ParseGTIDSet(s.at.in); err == nil {
		want.Join(in)
	}
	if missing := has.Missing(want); !missing.Empty() {
		return fmt.Errorf("cannot resume from %s: the server lacks transactions %s: it is not a copy of the original "+
			"server, lost the transactions, or its log was reset (RESET MASTER). %s", s.at.String(),
			missing.String(), newSnapshot)
	}
	if missing := s.at.set.Missing(gone); !missing.Empty() {
		return fmt.Errorf("changes were missed: the server has purged transactions %s, which the source has not "+
			"read. %s. Set expire_logs_days or binlog_expire_logs_seconds to longer than the source can be stopped",
			missing.String(), newSnapshot)
	}
	return nil
}
