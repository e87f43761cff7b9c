package kafka

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestLinks withholds an answer of a broker. The other connections to the broker end if they have received nothing
// since the request, and no others do.
func TestLinks(t *testing.T) {
	t.Parallel()
	silent, other, dial := listen(t), listen(t), newDialer(nil, nil)
	connect := func(l net.Listener) (client, server net.Conn) {
		t.Helper()
		client, err := dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		return client, server
	}
	asked, _ := connect(silent)
	idle, _ := connect(silent)
	used, user := connect(silent)
	elsewhere, _ := connect(other)
	if _, err := asked.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(used, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := read(asked, time.Now()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer that does not come: %v", err)
	}
	if err := read(idle, time.Now().Add(wait.Limit)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection to a broker that does not answer has not ended: %v", err)
	}
	if _, err := idle.Write([]byte("question")); err == nil {
		t.Error("a connection that has ended takes a question")
	}
	for name, c := range map[string]net.Conn{"on which something came": used, "to another broker": elsewhere} {
		if _, err := c.Write([]byte("question")); err != nil {
			t.Errorf("a connection %s has ended: %v", name, err)
		}
	}
	late, _ := connect(silent)
	if _, err := late.Write([]byte("question")); err != nil {
		t.Errorf("a connection that was made later has ended: %v", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// read returns the error of a read with a deadline.
func read(c net.Conn, deadline time.Time) error {
	_ = c.SetReadDeadline(deadline)
	_, err := c.Read(make([]byte, 1))
	return err
}
