package httpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpserver"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
)

// content is the content of a request with a number of records.
type content int

func (c *content) Left() int { return int(*c) }

func (c *content) Next(n int) ([]record.Record, error) {
	n = min(n, int(*c))
	*c -= content(n)
	return make([]record.Record, n), nil
}

func newServer(t *testing.T, handler http.Handler) *httpserver.Server {
	t.Helper()
	numbers, err := common.NewNumbers(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &httpserver.Server{Handler: handler, Timeout: time.Second, Idle: time.Second, Connections: 10,
		Requests: common.NewRequests(t.Context(), 10, 1000, numbers), Log: slog.New(slog.DiscardHandler)}
}

// TestWait checks how the wait for the acknowledgement of a request ends.
func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *httpserver.Server, gone context.CancelFunc)
		want error
		text string
	}{
		"acknowledged": {func(s *httpserver.Server, _ context.CancelFunc) { s.Requests.Ack(2) }, nil, ""},
		"partly": {func(s *httpserver.Server, _ context.CancelFunc) { s.Requests.Ack(1) }, httpserver.ErrLate,
			"the records were not written within 5s, but may be written later"},
		"stopped": {func(s *httpserver.Server, _ context.CancelFunc) { s.Requests.Close() }, httpserver.ErrStopped,
			"the pipeline has stopped"},
		"gone": {func(_ *httpserver.Server, gone context.CancelFunc) { gone() }, context.Canceled, "context canceled"},
		"acknowledged and stopped": {func(s *httpserver.Server, _ context.CancelFunc) {
			s.Requests.Ack(2)
			s.Requests.Close()
		}, nil, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, nil)
			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			result := make(chan error)
			go func() { result <- s.Wait(ctx, new(content(2)), 5*time.Second) }()
			for n := 0; n < 2; {
				records, err := s.Requests.Next(t.Context(), 10)
				if n += len(records); err != nil {
					t.Fatal(err)
				}
			}
			c.end(s, gone)
			if err := <-result; !errors.Is(err, c.want) || err != nil && err.Error() != c.text {
				t.Errorf("%s: %v, want %v %q", name, err, c.want, c.text)
			}
		})
	}
}

// TestListen serves at two addresses, refuses one that is in use, and ends.
func TestListen(t *testing.T) {
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	var addresses []string
	for range 2 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)))
		if err := s.Listen(t.Context(), addresses[len(addresses)-1]); err != nil {
			t.Fatal(err)
		}
	}
	var lost interface{ Lost() bool }
	err := s.Listen(t.Context(), addresses[0])
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("the error is %v", err)
	}
	for _, address := range addresses {
		resp, err := http.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); string(text) != "here" || err != nil {
			t.Errorf("%s responds %q, %v", address, text, err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if resp, err := http.Get("http://" + addresses[0]); err == nil {
		_ = resp.Body.Close()
		t.Error("the server has not ended")
	}
}
