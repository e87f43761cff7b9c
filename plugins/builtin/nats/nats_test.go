package nats_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/nats"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestSettings checks the errors for invalid settings.
func TestSettings(t *testing.T) {
	for wanted, set := range map[string]map[string]string{
		`"url": must be`:          {"url": "http://a", "stream": "S"},
		`"url": must not contain`: {"url": "nats://u:p@a", "stream": "S"},
		`"stream": is`:            {"url": "nats://a"},
		`"subjects": is`:          {"url": "nats://a", "type": "core"},
		`"queue": needs`:          {"url": "nats://a", "stream": "S", "queue": "q"},
		`"auth.nkey": must`:       {"url": "nats://a", "stream": "S", "auth.nkey": "x"},
	} {
		if err := (&nats.Source{}).Configure(t.Context(), set); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%v: got %v, want %s", set, err, wanted)
		}
	}
	for _, subject := range []string{"a.>", "a b", "{{", ".a"} {
		if err := (&nats.Destination{}).Configure(t.Context(), map[string]string{"url": "nats://a",
			"subject": subject}); err == nil || !strings.Contains(err.Error(), `"subject"`) {
			t.Errorf("subject %s: got %v", subject, err)
		}
	}
}

// A pipeline stops at once while a source or a destination connects to a server that does not answer.
func TestConnectingEndsWithItsContext(t *testing.T) {
	connect := map[string]func(ctx context.Context, settings map[string]string) error{
		"source": func(ctx context.Context, settings map[string]string) error {
			settings["type"], settings["subjects"] = "core", "s"
			var s nats.Source
			if err := errors.Join(s.Configure(ctx, settings), s.Open(ctx, nil)); err != nil {
				return err
			}
			_, err := s.Read(ctx)
			return err
		},
		"destination": func(ctx context.Context, settings map[string]string) error {
			settings["subject"] = "s"
			var d nats.Destination
			if err := errors.Join(d.Configure(ctx, settings), d.Open(ctx)); err != nil {
				return err
			}
			_, err := d.Write(ctx, []record.Record{{After: record.Raw([]byte("x"))}})
			return err
		},
	}
	for name, connect := range connect {
		for when, first := range map[string]string{"from the beginning": "", "after its first line": "INFO {}\r\n"} {
			t.Run(name+", silent "+when, func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					defer cancel()
					c, err := l.Accept()
					if err == nil && first != "" {
						_, _ = io.WriteString(c, first)
						_, _ = bufio.NewReader(c).ReadString('\n')
					}
				}()
				if err := connect(ctx, map[string]string{"url": "nats://" + l.Addr().String(), "timeout": "1h"}); !errors.Is(
					err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
