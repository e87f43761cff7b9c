package wire

import (
	"io"
	"log/slog"
)

// RegisterToken makes a token as one for a plugin process.
func RegisterToken(s *SchemaServer, connectorID string) (target, token string) {
	return s.register(connectorID)
}

// RevokeToken takes it back.
func RevokeToken(s *SchemaServer, token string) { s.revoke(token) }

// NewLogWriter returns what logs the output of a plugin process, and what is called when
// that has ended.
func NewLogWriter(log *slog.Logger) (w io.Writer, flush func()) {
	l := newLogWriter(log)
	return l, l.flush
}
