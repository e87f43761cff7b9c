package server_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// echo answers every byte with itself.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *server.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a byte and waits for it to come back, no longer than the limit.
func ask(c net.Conn, limit time.Duration) error {
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestProxy(t *testing.T) {
	p := server.NewProxy(t, echo(t))
	c := dial(t, p)
	if err := ask(c, time.Second); err != nil {
		t.Fatalf("a network without faults: %v", err)
	}
	p.Delay(30 * time.Millisecond)
	began := time.Now()
	if err := ask(c, time.Second); err != nil || time.Since(began) < 60*time.Millisecond {
		t.Errorf("delayed twice by 30 ms it took %v: %v", time.Since(began), err)
	}
	p.Heal()
	p.Hold(true)
	if err := ask(c, 50*time.Millisecond); err == nil {
		t.Error("something came through a half-open connection")
	}
	p.Hold(false)
	if err := ask(c, time.Second); err != nil {
		t.Errorf("what was held does not come: %v", err)
	}
	c = dial(t, p) // on the other one an answer is left
	if err := ask(c, time.Second); err != nil {
		t.Fatal(err)
	}
	p.Refuse(true)
	p.Cut()
	if err := ask(c, time.Second); err == nil {
		t.Error("a connection that was cut answers")
	}
	if err := ask(dial(t, p), time.Second); err == nil {
		t.Error("a connection that is refused answers")
	}
	p.Heal()
	if err := ask(dial(t, p), time.Second); err != nil {
		t.Errorf("after the faults: %v", err)
	}
}
