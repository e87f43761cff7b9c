package rabbitmq_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/rabbitmq"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSettings checks the errors for invalid settings.
func TestSettings(t *testing.T) {
	t.Parallel()
	for wanted, set := range map[string]map[string]string{
		`"url": must be`:          {"url": "http://a", "queue": "q"},
		`"url": must not contain`: {"url": "amqp://u:p@a", "queue": "q"},
		`"url": must have`:        {"url": "amqp://a/vhost", "queue": "q"},
		`"offset": must be first`: {"url": "amqp://a", "queue": "q", "offset": "-1"},
		`"offset": must not`:      {"url": "amqp://a", "queue": "q", "offset": "next"},
		`"queue": must`:           {"url": "amqp://a", "queue": strings.Repeat("q", 256)},
		`"bindings"`:              {"url": "amqp://a", "queue": "q", "bindings": "orders"},
	} {
		var s rabbitmq.Source
		if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(set)); err == nil ||
			!strings.Contains(err.Error(), wanted) {
			t.Errorf("%v: got %v, want %s", set, err, wanted)
		}
	}
	for wanted, set := range map[string]map[string]string{
		`"routingKey": is required`: {"url": "amqp://a"},
		`"exchange": must not`:      {"url": "amqp://a", "exchange": strings.Repeat("e", 256)},
		`"routingKey"`:              {"url": "amqp://a", "routingKey": "{{"},
		`"declare": needs the name`: {"url": "amqp://a", "routingKey": "{{ .Metadata.a }}", "declare": "quorum"},
		`"declare": needs`:          {"url": "amqp://a", "exchange": "e", "declare": "quorum"},
	} {
		var d rabbitmq.Destination
		if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(set)); err == nil ||
			!strings.Contains(err.Error(), wanted) {
			t.Errorf("%v: got %v, want %s", set, err, wanted)
		}
	}
}

// serve accepts a connection, calls reply when the client has sent the protocol header, and ends with the test.
func serve(t *testing.T, reply func(net.Conn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		if _, err := io.ReadFull(c, make([]byte, len("AMQP\x00\x00\x09\x01"))); err == nil {
			reply(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// method returns a method of a server that concerns the connection.
func method(payload string) string {
	return fmt.Sprintf("\x01\x00\x00\x00\x00\x00%c%s\xce", len(payload), payload)
}

// TestLogin connects again to a server that ends the connection during the login, as one that is killed, and fails at
// once when the server gives a reason.
func TestLogin(t *testing.T) {
	t.Parallel()
	const (
		start   = "\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US"
		tune    = "\x00\x0a\x00\x1e\x00\x10\x00\x02\x00\x00\x00\x00"
		refused = "\x00\x0a\x00\x32\x01\x93\x07REFUSED\x00\x00\x00\x00" // code 403
		denied  = "\x00\x0a\x00\x32\x02\x12\x06DENIED\x00\x00\x00\x00"  // code 530
	)
	for _, one := range []struct {
		name, reply, wanted string
		answers             int // of the client before the reply
	}{
		{"credentials", refused, `check auth.username and auth.password`, 1},
		{"virtual host", denied, `check vhost`, 3},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				for tries := 0; ; tries++ {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.ReadFull(c, make([]byte, len("AMQP\x00\x00\x09\x01")))
					_, _ = io.WriteString(c, method(start))
					first := frame(c)
					if !strings.Contains(first, "authentication_failure_closet\x01") {
						t.Errorf("the client sends %q", first)
					}
					if one.answers > 1 {
						_, _ = io.WriteString(c, method(tune))
						_, _ = frame(c), frame(c)
					}
					if tries > 0 {
						_, _ = io.WriteString(c, method(one.reply))
						_ = frame(c)
					}
					_ = c.Close()
				}
			}()
			var logged strings.Builder
			ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:s",
				Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			var s rabbitmq.Source
			set := map[string]string{"url": "amqp://" + l.Addr().String(), "queue": "q"}
			if err := errors.Join(s.Configure(ctx, s.Parameters().ApplyDefaults(set)), s.Open(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(ctx); err == nil || !strings.Contains(err.Error(), one.wanted) {
				t.Errorf("got %v, want %s", err, one.wanted)
			}
			_ = s.Teardown(ctx)
			if text := logged.String(); strings.Count(text, "ended the connection during the login without a reason") != 1 {
				t.Errorf("the log is %s", text)
			}
		})
	}
}

// frame returns the payload of the next frame; "" if there is none.
func frame(c net.Conn) string {
	head := make([]byte, 7)
	if _, err := io.ReadFull(c, head); err != nil {
		return ""
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	_, _ = io.ReadFull(c, payload)
	return string(payload)
}

func write(ctx context.Context, addr, timeout string) error {
	var d rabbitmq.Destination
	set := map[string]string{"url": "amqp://" + addr, "routingKey": "q", "timeout": timeout, "retry.timeout": "0s"}
	if err := errors.Join(d.Configure(ctx, d.Parameters().ApplyDefaults(set)), d.Open(ctx)); err != nil {
		return err
	}
	_, err := d.Write(ctx, []record.Record{{After: record.Raw([]byte("x"))}})
	return err
}

// A pipeline stops at once while a destination connects to a server that does not answer.
func TestConnectingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	addr := serve(t, func(c net.Conn) {
		cancel()
		_, _ = io.Copy(io.Discard, c)
	})
	if err := write(ctx, addr, "1h"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Errors about a port of another protocol name the remedy, and a frame that announces too much is not read.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	for wanted, answer := range map[string]string{
		"use a URL with amqps://":   "\x15\x03\x01\x00\x02\x02\x46",
		"does not accept AMQP":      "AMQP\x00\x01\x00\x00",
		"does not speak AMQP":       "HTTP/1.1 400 Bad Request\r\n\r\n",
		"announces a frame":         "\x01\x00\x00\x7f\xff\xff\xff",
		"sends more messages":       "\x01\x00\x01\x00\x00\x00\x0c\x00\x3c\x00\x3c\x01a\x00\x00\x00\x00\x00\x00",
		"was not published":         "\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50\xff\xff\xff\xff\xff\xff\xff\xff",
		"announces a message of":    "\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff",
		"longer than announced":     "\x08\x00\x00\x00\x00\x00\x00\x00",
		"is too short":              "\x01\x00\x00\x00\x00\x00\x02\x00\x3c\xce",
		"cannot connect: Exception": "",
	} {
		addr := serve(t, func(c net.Conn) {
			if _, err := io.WriteString(c, answer); err == nil && answer == "" {
				return
			}
			_, _ = io.Copy(io.Discard, c)
		})
		if err := write(t.Context(), addr, "5s"); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %s", err, wanted)
		}
	}
}
