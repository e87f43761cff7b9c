package rabbitmq_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/rabbitmq"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestSettings checks the errors for invalid settings.
func TestSettings(t *testing.T) {
	t.Parallel()
	for wanted, set := range map[string]map[string]string{
		`"url": must be`:          {"url": "http://a", "queue": "q"},
		`"url": must not contain`: {"url": "amqp://u:p@a", "queue": "q"},
		`"url": must have`:        {"url": "amqp://a/vhost", "queue": "q"},
		`"offset": must`:          {"url": "amqp://a", "queue": "q", "offset": "-1"},
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
