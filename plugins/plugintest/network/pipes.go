package network

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// Pipes is a network of pipes in memory with one server, so that tests with connections can use virtual time.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

// NewPipes returns a network whose server accepts the connections.
func NewPipes() *Pipes { return &Pipes{make(chan net.Conn), make(chan struct{})} }

// ServePipes serves requests through pipes until the test ends.
func ServePipes(t testing.TB, h http.Handler) *Pipes {
	p := NewPipes()
	s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	ended := make(chan struct{})
	go func() {
		_ = s.Serve(p)
		close(ended)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return p
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Dial connects to the server, whatever the address. It is for http.Transport.DialContext.
func (p *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
