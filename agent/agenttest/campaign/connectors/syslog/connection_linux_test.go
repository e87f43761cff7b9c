package syslog_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// small listens for connections whose kernel buffers only a few kilobytes of unread data.
func small(t *testing.T) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
		})
	}}
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// larger exceeds the kernel buffers of such a server, and fits into the kernel buffers of the sender.
var larger = strings.Repeat("x", 100<<10)

// TestServerTakesNothing makes the kernel of the server accept no data from the kernel of the sender: the connection is
// given up, and the record is sent again over another one.
func TestServerTakesNothing(t *testing.T) {
	t.Parallel()
	l, got := small(t), make(chan string, 1)
	go func() {
		first, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = first.Close() }()
		second, err := l.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(second)
		got <- string(b)
	}()
	d := destination(t, l.Addr().String(), "timeout", "1s", "retry.timeout", "1m")
	if n, err := d.Write(t.Context(), some(larger)); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if err := d.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-got:
		if !strings.HasSuffix(text, " "+larger) {
			t.Errorf("the second connection had %d bytes, %.80q…", len(text), text)
		}
	case <-time.After(wait.Limit):
		t.Error("there is no second connection")
	}
}

// TestServerIsSlow has a server that takes longer than the timeout but makes progress: the connection is kept. Its
// window is closed for longer than the kernel's interval between probes, once, and then again after the timeout.
func TestServerIsSlow(t *testing.T) {
	t.Parallel()
	const timeout, pause = 5 * time.Second, 500 * time.Millisecond // a kernel probes after 200 ms, then doubles
	l, got := small(t), make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		pauses := []time.Duration{timeout / 4, timeout * 5 / 4}
		text := slowly(c, func(begin time.Time) (int64, time.Duration) {
			switch took := time.Since(begin); {
			case took >= timeout*3/2:
				return 0, 0
			case len(pauses) > 0 && took >= pauses[0]:
				pauses = pauses[1:]
				return 2 << 10, pause
			}
			return 2 << 10, pause / 10
		})
		got <- text
	}()
	d := destination(t, l.Addr().String(), "timeout", timeout.String())
	begin := time.Now()
	if n, err := d.Write(t.Context(), some(strings.Repeat(larger, 5))); n != 1 || err != nil {
		t.Fatalf("wrote %d after %v: %v", n, time.Since(begin), err)
	}
	if took := time.Since(begin); took < timeout {
		t.Errorf("the server took %v only", took)
	}
	if err := d.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := <-got; !strings.HasSuffix(text, larger) {
		t.Errorf("the connection had %d bytes", len(text))
	}
}

// TestRecordIsLarge has a server that takes longer than the timeout for a record that exceeds all kernel buffers: the
// connection is kept.
func TestRecordIsLarge(t *testing.T) {
	t.Parallel()
	cert, key, _ := network.Certificate(t)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"tcp", "tls"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			const timeout, size = 4 * time.Second, 24 << 20
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if protocol == "tls" {
				l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
			}
			defer func() { _ = l.Close() }()
			got := make(chan int, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				got <- len(slowly(c, func(time.Time) (int64, time.Duration) { return 2 << 20, timeout / 10 }))
			}()
			d := destination(t, l.Addr().String(), "protocol", protocol, "tls.ca", cert, "timeout", timeout.String(),
				"retry.timeout", "0s")
			begin := time.Now()
			if n, err := d.Write(t.Context(), some(strings.Repeat("x", size))); n != 1 || err != nil {
				t.Fatalf("wrote %d after %v: %v", n, time.Since(begin), err)
			}
			if took := time.Since(begin); took < timeout {
				t.Errorf("the server took %v only", took)
			}
			if err := d.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := <-got; n < size {
				t.Errorf("the connection had %d bytes", n)
			}
		})
	}
}

// slowly reads a connection to its end. At each step it reads the given number of bytes and pauses; 0: all.
func slowly(c net.Conn, step func(begin time.Time) (bytes int64, pause time.Duration)) string {
	var text strings.Builder
	for begin := time.Now(); ; {
		n, pause := step(begin)
		if n == 0 {
			_, _ = io.Copy(&text, c)
			return text.String()
		}
		if _, err := io.CopyN(&text, c, n); err != nil {
			return text.String()
		}
		time.Sleep(pause)
	}
}

// TestHalfOpen loses the connection silently, as with a pulled cable: records written then are sent again over another
// one, and refused temporarily if there is none in time.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	cert, key, _ := network.Certificate(t)
	for protocol, own := range map[string][]string{"tcp": nil, "tls": {"tls.cert", cert, "tls.key", key}} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s, addr := source(t, append(own, "protocols", "tcp")...)
			network := network.NewProxy(t, addr)
			// Longer than a TLS handshake on a busy machine.
			settings := []string{"protocol", protocol, "tls.ca", cert, "timeout", "5s"}
			patient := destination(t, network.Addr(), append(settings, "retry.timeout", "1m")...)
			hasty := destination(t, network.Addr(), append(settings, "retry.timeout", "0s")...)
			for _, d := range []sdk.Destination{patient, hasty} {
				if n, err := d.Write(t.Context(), some("before")); n != 1 || err != nil {
					t.Fatalf("wrote %d: %v", n, err)
				}
			}
			read(t, s, 2)
			if n := network.Unplug(t); n != 2 {
				t.Fatalf("%d connections are half-open, want 2", n)
			}
			if n, err := patient.Write(t.Context(), some("after", "again")); n != 2 || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
			var got []any
			for _, r := range read(t, s, 2) {
				m, _ := r.After.Structured()
				got = append(got, m["message"])
			}
			if !slices.Equal(got, []any{"after", "again"}) {
				t.Errorf("got %q", got)
			}
			if n, err := hasty.Write(t.Context(), some("never")); n != 0 ||
				!errors.As(err, new(interface{ Lost() bool })) {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
	}
}
