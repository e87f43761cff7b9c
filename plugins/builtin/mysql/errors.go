package mysql

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// Error numbers that the connector handles.
const (
	unknownError      = 1105
	noSuchTable       = 1146
	lockWaitTimeout   = 1205
	noEventThere      = 1220
	accessDenied      = 1227
	accessDeniedUser  = 1045
	commandDenied     = 1142
	logUnreadable     = 1236
	changedSince      = 1412
	tooLargeForPacket = 1153
)

// transientNumbers are the numbers of transient errors: too many connections, shutdown, lost packets, locks, a server
// that is read-only at the moment, a killed session.
var transientNumbers = []uint16{1040, 1041, 1047, 1053, 1077, 1078, 1079, 1129, 1152, 1158, 1159, 1160, 1161, 1180,
	1184, 1203, 1205, 1213, 1226, 1290, 1317, 1792, 1836, 1927, 2006, 2013, 3024, 4031}

// refusedNumbers are the errors that the record causes, in addition to the SQLSTATE classes in refused: values that a
// column does not accept, columns without a default, missing partitions, constraints, JSON, and tables with too many
// columns.
var refusedNumbers = []uint16{tooLargeForPacket, 1117, 1364, 1366, 1265, 1526, 3140, 3819, 4025, 4078}

// privilegeNumbers are the errors for missing privileges.
var privilegeNumbers = []uint16{1044, 1045, 1142, 1143, 1227, 1370, 1410}

// transient reports whether err is an error of the network or of a server that will recover.
func transient(err error) bool {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return slices.Contains(transientNumbers, e.Number)
	}
	var network net.Error
	return errors.Is(err, errLongQueries) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// refused reports whether the record causes err: the SQLSTATE classes for data, constraints and names, and errors
// raised by triggers.
func refused(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return errors.Is(err, mysql.ErrPktTooLarge)
	}
	if slices.Contains(privilegeNumbers, e.Number) || slices.Contains(transientNumbers, e.Number) {
		return false
	}
	tooLong := e.Number == unknownError && strings.Contains(e.Message, "max_allowed_packet")
	return tooLong || slices.Contains(refusedNumbers, e.Number) ||
		slices.ContainsFunc([]string{"01", "21", "22", "23", "42", "44", "45"}, func(class string) bool {
			return strings.HasPrefix(string(e.SQLState[:]), class)
		})
}

func isNumber(err error, number uint16) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == number
}

// errAgain makes the source open a new session.
var errAgain = errors.New("the session must be reopened")

// newSnapshot tells the user how to recover from missed changes.
const newSnapshot = "A new snapshot is needed: delete the pipeline and declare it again, or give the source a new id"

// plain converts an error of a replication session to the form of the driver.
func plain(err error) error {
	var e *binlog.Error
	if !errors.As(err, &e) {
		return err
	}
	converted := &mysql.MySQLError{Number: e.Number, Message: e.Message}
	copy(converted.SQLState[:], e.State)
	return converted
}

// explain converts an error of the log to one that describes the missed changes and the remedy.
func (s *Source) explain(err error) error {
	if err == nil {
		return nil
	}
	var e *binlog.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Number == logUnreadable && (strings.Contains(e.Message, "same server_uuid/server_id") ||
		strings.Contains(e.Message, "same server_id")):
		return fmt.Errorf("cannot read the binary log: another replica uses server id %d: set serverId to "+
			"an unused number: %w", s.settings.ServerID, plain(err))
	case e.Number == logUnreadable && strings.Contains(e.Message, "max_allowed_packet"):
		return fmt.Errorf("cannot read the binary log: an event exceeds max_allowed_packet of the server: run SET "+
			"GLOBAL max_allowed_packet = 1073741824: %w", plain(err))
	case e.Number == logUnreadable:
		return fmt.Errorf("changes after %s were missed: the binary log of the server does not have this position "+
			"(purged logs, another server, RESET MASTER): %w. %s. Set expire_logs_days or binlog_expire_logs_seconds "+
			"to longer than the source can be stopped",
			s.at.String(), plain(err), newSnapshot)
	case e.Number == accessDenied:
		return fmt.Errorf("cannot read the binary log: %w: run GRANT REPLICATION SLAVE ON *.* TO %s",
			plain(err), s.server.user)
	}
	return fmt.Errorf("cannot read the binary log: %w", plain(err))
}
