package socket

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
)

// TestSendToClientThatLeft sends messages to a client that left after the look whether it is there: they are not
// written, and the next client gets them.
func TestSendToClientThatLeft(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c := newClients(slog.New(slog.DiscardHandler), &destinationSettings{Timeout: time.Hour, Require: "client"}, nil)
		left := connected(t, c, l)
		<-left.Gone()
		g := &group{messages: [][]byte{[]byte("a\n")}}
		c.pending = append(c.pending, g)
		var failed error
		for failed == nil { // the first messages to a TCP client that has closed its end are accepted
			failed = left.send(t.Context(), &group{messages: g.messages})
		}
		if failed = left.send(t.Context(), g); failed == nil {
			t.Fatalf("%s: messages are sent to a client that has left", network)
		}
		c.mu.Lock()
		c.remove(left, failed)
		c.mu.Unlock()
		if ctx, cancel := context.WithCancel(t.Context()); !g.written {
			cancel()
			if err := c.finish(ctx, g); err == nil {
				t.Errorf("%s: messages that nobody got are written", network)
			}
		} else {
			cancel()
			t.Errorf("%s: messages that could not be sent are written", network)
		}
	}
}

// connected returns a client that has joined and whose other end is closed.
func connected(t *testing.T, c *clients, l net.Listener) *client {
	t.Helper()
	far, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	one, err := sockets.Over(t.Context(), near, nil, time.Hour, "client")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	joined := &client{Connection: one, ends: map[*group]int64{}}
	if err := c.join(joined); err != nil {
		t.Fatal(err)
	}
	if err := far.Close(); err != nil {
		t.Fatal(err)
	}
	return joined
}
