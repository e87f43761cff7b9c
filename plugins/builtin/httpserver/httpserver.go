// Package httpserver is the part that sources share which receive requests over HTTP: listening, bounds on connections
// and headers, waiting for acknowledgements, and an end that never confirms a request which is not acknowledged.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	headerLimit = 64 << 10
	maxStreams  = 100 // concurrent requests over one HTTP/2 connection
	headerTime  = 10 * time.Second
	goodbyeTime = 5 * time.Second // for sending answers when the source ends
)

// Server serves the requests of a source. Its exported fields are set before Listen.
type Server struct {
	Handler http.Handler
	// TLS is the configuration; nil for a server without TLS.
	TLS *tls.Config
	// Cleartext accepts HTTP/2 also without TLS.
	Cleartext bool
	// Timeout limits the receipt of a request, and Idle the time between two requests over a connection.
	Timeout, Idle time.Duration
	// Connections is the maximum number of connections to each address.
	Connections int
	// Requests are the requests that wait. Close frees them.
	Requests *common.Requests
	Log      *slog.Logger

	servers []*http.Server
	serving sync.WaitGroup
}

// Listen starts serving requests at an address.
func (s *Server) Listen(ctx context.Context, address string) error {
	var l net.ListenConfig
	listener, err := l.Listen(ctx, "tcp", address)
	if err != nil {
		return sdk.Unavailable(fmt.Errorf("cannot listen: %w", err))
	}
	limited := common.LimitConnections(listener, s.Connections, s.Log)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(s.Cleartext)
	h := &http.Server{Handler: s.Handler, TLSConfig: s.TLS, Protocols: protocols, ReadHeaderTimeout: headerTime,
		IdleTimeout: s.Idle, MaxHeaderBytes: headerLimit, ReadTimeout: s.Timeout, ConnState: limited.Observe,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
	s.servers = append(s.servers, h)
	s.serving.Go(func() { s.serve(h, limited) })
	s.Log.Info("receiving requests", "address", listener.Addr().String(), "tls", s.TLS != nil)
	return nil
}

func (s *Server) serve(h *http.Server, l net.Listener) {
	var err error
	if h.TLSConfig != nil {
		err = h.ServeTLS(l, "", "")
	} else {
		err = h.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.Log.Error("cannot receive further requests", "err", err)
		s.Requests.Close()
	}
}

// Close ends the server after the handlers of waiting requests have answered, for which Wait returns ErrStopped. It
// frees the requests.
func (s *Server) Close(ctx context.Context) error {
	for _, h := range s.servers {
		h.SetKeepAlivesEnabled(false)
	}
	s.Requests.Close()
	ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	var errs []error
	for _, h := range s.servers {
		if h.Shutdown(ctx) != nil { // a client sends slowly, or does not read
			errs = append(errs, h.Close())
		}
	}
	s.serving.Wait()
	s.Requests.Free()
	return errors.Join(errs...)
}

// Errors of Wait.
var (
	// ErrStopped: the source has ended.
	ErrStopped = errors.New("the pipeline has stopped")
	// ErrLate: the records may be written later.
	ErrLate = errors.New("the records were not written in time")
)

// late is the ErrLate of a timeout.
type late time.Duration

// Error returns a text for the sender.
func (l late) Error() string {
	return fmt.Sprintf("the records were not written within %v, but may be written later", time.Duration(l))
}

// Is implements the function for errors.Is.
func (late) Is(target error) bool { return target == ErrLate }

// Wait adds a request and waits until all its records are acknowledged, for at most timeout. After an error, the sender
// repeats the request. If ctx ends, the sender has gone.
func (s *Server) Wait(ctx context.Context, c common.Content, timeout time.Duration) error {
	waiting := s.Requests.Add(c)
	select {
	case <-waiting.Done():
		return nil
	case <-time.After(timeout):
		s.Requests.GiveUp(waiting)
		return late(timeout)
	case <-s.Requests.Closed():
		select {
		case <-waiting.Done(): // just before
			return nil
		default:
			return ErrStopped
		}
	case <-ctx.Done():
		s.Requests.GiveUp(waiting)
		return ctx.Err()
	}
}
