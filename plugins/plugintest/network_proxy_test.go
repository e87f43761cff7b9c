package plugintest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// echo sends every byte back.
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

func dial(t *testing.T, p *network.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a byte and waits for its return, up to the limit.
func ask(c net.Conn, limit time.Duration) error {
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// send sends a byte.
func send(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
}

func TestProxy(t *testing.T) {
	p := network.NewProxy(t, echo(t))
	c := dial(t, p)
	if err := ask(c, wait.Limit); err != nil {
		t.Fatalf("a network without faults: %v", err)
	}
	p.Delay(time.Millisecond)
	if err := ask(c, wait.Limit); err != nil {
		t.Errorf("what was delayed does not come: %v", err)
	}
	p.Delay(time.Hour)
	send(t, c)
	wait.For(t, "the byte is delayed", func() bool { return wait.Goroutines("(*Proxy).pass") == 1 })
	p.Heal()
	other := dial(t, p)
	if err := ask(other, wait.Limit); err != nil {
		t.Errorf("after the delay: %v", err)
	}
	if n := network.Unread(t, c); n > 0 {
		t.Errorf("delayed by an hour, %d bytes came at once", n)
	}
	c = other
	p.Hold(true)
	send(t, c)
	wait.For(t, "the byte is held", func() bool { return p.Holds() == 1 })
	if n := network.Unread(t, c); n > 0 {
		t.Errorf("%d bytes came through a stalled connection", n)
	}
	p.Hold(false)
	_ = c.SetDeadline(time.Now().Add(wait.Limit))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("what was held does not come: %v", err)
	}
	if n := p.Holds(); n != 0 {
		t.Errorf("something of %d ends is held after it was passed on", n)
	}
	p.Refuse(true)
	p.Cut()
	if err := ask(c, wait.Limit); err == nil {
		t.Error("a connection that was cut answers")
	}
	if err := ask(dial(t, p), wait.Limit); err == nil {
		t.Error("a connection that is refused answers")
	}
	p.Heal()
	if err := ask(dial(t, p), wait.Limit); err != nil {
		t.Errorf("after the faults: %v", err)
	}
}

// TestCutEverywhere loses each part of a conversation in turn, in both directions, and none after Heal.
func TestCutEverywhere(t *testing.T) {
	p := network.NewProxy(t, echo(t))
	before := dial(t, p)
	if err := ask(before, wait.Limit); err != nil {
		t.Fatal(err)
	}
	const last = 5
	cuts := p.CutEverywhere(last)
	if err := ask(before, wait.Limit); err == nil {
		t.Error("a connection that was made earlier is not cut")
	}
	for n := range 2 * last {
		c, asked := dial(t, p), 0
		for ask(c, wait.Limit) == nil {
			asked++
		}
		if want := n % last / 2; asked != want || cuts() != n+1 { // a question and its answer are two parts
			t.Errorf("connection %d has %d answers and %d cuts, want %d and %d", n, asked, cuts(), want, n+1)
		}
	}
	p.Heal()
	c := dial(t, p)
	for range last {
		if err := ask(c, wait.Limit); err != nil {
			t.Errorf("after Heal: %v", err)
		}
	}
}

// TestBlackhole makes a connection half-open: neither end receives data or the end of the other one.
func TestBlackhole(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := network.NewProxy(t, l.Addr().String())
	client := dial(t, p)
	served, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	go func() { _, _ = io.CopyN(served, served, 1) }()
	if err := ask(client, wait.Limit); err != nil {
		t.Fatal(err)
	}
	if n := p.Blackhole(); n != 1 {
		t.Errorf("%d connections became half-open", n)
	}
	if _, err := client.Write(make([]byte, 16<<20)); err != nil { // more than all buffers can take
		t.Errorf("what is sent into a half-open connection is not taken: %v", err)
	}
	if n := network.Unread(t, served); n > 0 {
		t.Errorf("the server received %d bytes", n)
	}
	if err := served.Close(); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the proxy sees the end of the server", func() bool { return wait.Goroutines("(*Proxy).copy") == 1 })
	if n := network.Unread(t, client); n > 0 {
		t.Errorf("the client received %d bytes", n)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	if err := ask(dial(t, p), wait.Limit); err != nil {
		t.Errorf("a new connection does not answer: %v", err)
	}
	p.Cut()
	_ = client.SetDeadline(time.Now().Add(wait.Limit))
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a half-open connection that is cut does not end: %v", err)
	}
}

// TestRefusedWhileConnecting refuses connections, and cuts the existing ones, while the proxy connects to the server:
// no connection remains.
func TestRefusedWhileConnecting(t *testing.T) {
	target := echo(t)
	for range 200 {
		p := network.NewProxy(t, target)
		c := dial(t, p)
		p.Refuse(true)
		p.Cut()
		if err := ask(c, wait.Limit); err == nil {
			t.Fatal("a connection goes through a proxy that refuses")
		}
	}
}
