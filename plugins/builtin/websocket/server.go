package websocket

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	headerLimit = 64 << 10
	headerTime  = 10 * time.Second
	goodbyeTime = 5 * time.Second // for sending answers when the server ends
)

// server accepts WebSockets of clients.
type server struct {
	settings *endpointSettings
	log      *slog.Logger
	serve    func(c *conn, r *http.Request) // returns when it has closed the connection
	http     *http.Server
	ended    chan struct{}  // closed when http.Serve has returned
	serving  sync.WaitGroup // calls of serve
}

// listen starts a server. serve is called for each connection, and returns when it has closed the connection.
func (s *endpointSettings) listen(ctx context.Context, serve func(c *conn, r *http.Request)) (*server, error) {
	config, err := s.Server()
	if err != nil {
		return nil, err
	}
	if config != nil {
		config.NextProtos = []string{"http/1.1"} // a WebSocket begins with a request of HTTP/1.1
	}
	var listener net.ListenConfig
	l, err := listener.Listen(ctx, "tcp", s.Address)
	if err != nil {
		return nil, sdk.Unavailable(fmt.Errorf("cannot listen: %w", err))
	}
	own := &server{settings: s, log: sdk.Logger(ctx), serve: serve, ended: make(chan struct{})}
	limited := common.LimitConnections(l, s.Connections, own.log)
	mux := http.NewServeMux()
	mux.HandleFunc(s.Path, own.handle)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	own.http = &http.Server{Handler: mux, TLSConfig: config, Protocols: protocols, ReadHeaderTimeout: headerTime,
		ReadTimeout: s.Timeout, IdleTimeout: headerTime, MaxHeaderBytes: headerLimit, ConnState: limited.Observe,
		ErrorLog: slog.NewLogLogger(own.log.Handler(), slog.LevelDebug)}
	go func() { defer close(own.ended); own.run(limited) }()
	own.log.Info("accepting connections", "address", l.Addr().String(), "tls", config != nil)
	return own, nil
}

func (s *server) run(l net.Listener) {
	var err error
	if s.http.TLSConfig != nil {
		err = s.http.ServeTLS(l, "", "")
	} else {
		err = s.http.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("cannot accept further connections", "err", err)
	}
}

// close ends the server when serve has returned for every connection. The caller makes serve return.
func (s *server) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	s.http.SetKeepAlivesEnabled(false)
	err := s.http.Shutdown(ctx)
	if err != nil { // a client sends slowly, or does not read
		err = s.http.Close()
	}
	<-s.ended
	s.serving.Wait()
	return err
}

// handle answers the request for a WebSocket, and serves the connection.
func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	if !s.settings.Admits(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request has no valid credentials", http.StatusUnauthorized)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !s.allows(origin) {
		http.Error(w, "pages of this origin may not connect: it is not in the setting origins", http.StatusForbidden)
		return
	}
	s.serving.Add(1)
	defer s.serving.Done()
	taken := &hijacker{ResponseWriter: w, settings: s.settings}
	ws, err := websocket.Accept(taken, r, &websocket.AcceptOptions{InsecureSkipVerify: true, // the origin was checked
		Subprotocols: s.settings.Subprotocols})
	if err != nil {
		s.log.Debug("a request opened no WebSocket", "remote", r.RemoteAddr, "err", err)
		return // Accept answered
	}
	s.serve(newConn(ws, taken.conn, s.settings), r)
}

// allows reports whether pages of an origin may connect. An origin that equals the host of the request is not enough:
// any name can lead to this host, which serves no pages.
func (s *server) allows(origin string) bool {
	return slices.Contains(s.settings.Origins, origin) || slices.Contains(s.settings.Origins, "*")
}

// hijacker lets the library take over a connection that is watched.
type hijacker struct {
	http.ResponseWriter
	settings *endpointSettings
	conn     *watched
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = watch(c, h.settings)
	rw.Writer.Reset(h.conn)
	return h.conn, rw, nil
}
