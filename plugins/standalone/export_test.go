package standalone

import (
	"io"
	"log/slog"
)

// ServeSchemas serves a connector with the token in dir until stop.
func ServeSchemas(s *SchemaServer, connectorID, token, dir string) (target string, stop func(), err error) {
	service, err := s.serve(connectorID, token, dir)
	if err != nil {
		return "", nil, err
	}
	return service.target(false), service.stop, nil
}

// NewLogWriter returns a writer that logs the output of a plugin process, and a function
// for its end.
func NewLogWriter(log *slog.Logger) (w io.Writer, flush func()) {
	l := newLogWriter(log)
	return l, l.flush
}

// SourceIsAhead reports whether s has received as many messages ahead as it may.
func SourceIsAhead(s *Source) bool { return s.stream.isAhead() }

// DestinationIsAhead reports whether d has received as many messages ahead as it may.
func DestinationIsAhead(d *Destination) bool { return d.stream.isAhead() }

// Outstanding returns the number of records that Flush of d waits for.
func Outstanding(d *Destination) int { return d.outstanding() }

func (s *stream) isAhead() bool { return len(s.received) == cap(s.received) }

// SourceHasEnded reports whether the reason for the end of s's stream is known.
func SourceHasEnded(s *Source) bool { return isClosed(s.stream.ended) }

// LastSaid returns the part of a plugin's output line that is kept. With throttled set, the log limit is exhausted
// first.
func LastSaid(log *slog.Logger, redact func(string) string, line string, throttled bool) string {
	l := newLogWriter(log)
	l.logTo(log, redact)
	for throttled && l.throttle.Allow(maxLine) {
	}
	_, _ = io.WriteString(l, line+"\n")
	return l.last()
}

// Waiting returns how many received messages of s wait for a Read.
func Waiting(s *Source) int { return len(s.stream.received) }

// MakeSpace makes space for messages received ahead, as Read does.
func MakeSpace(s *Source) { s.makeSpace() }
