package standalone

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// SetEndTimeouts makes c wait d for each step in the end of a plugin.
func SetEndTimeouts(c *Client, d time.Duration) {
	c.ends = &endTimeouts{stream: d, exit: d, shutdown: d, terminate: d}
}

// SetFirstAgain sets the delay of the first retry to specify a file.
func SetFirstAgain(e *Executables, d time.Duration) { e.firstAgain = d }

// Scan scans the directory of e, and specifies nothing.
func Scan(e *Executables) {
	e.init()
	e.scan()
}

// SetSubstituteWait sets the time that Await waits for a better plugin.
func SetSubstituteWait(e *Executables, d time.Duration) { e.substituteWait = d }

// Due returns the time from now until the file at path, which is not specified yet, runs.
func Due(t testing.TB, path string, now time.Time) time.Duration {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &file{path: path, print: fingerprint.Of(info), pending: true}
	return f.due(now)
}

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

// RequestExit asks the plugin behind conn to exit, and returns how often its process is killed.
func RequestExit(ctx context.Context, conn *grpc.ClientConn) (kills int, err error) {
	r := &killed{}
	p := &process{runner: r, ends: defaultEndTimeouts}
	err = p.shutdown(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{}, conn,
		func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, options ...grpc.CallOption,
		) error {
			return conn.Invoke(ctx, method, req, reply, options...)
		})
	return r.times, err
}

// killed counts calls of Kill.
type killed struct {
	attached
	times int
}

func (k *killed) Kill(context.Context) error { k.times++; return nil }
