package httpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
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

// arrives is a context that does something when a select of Wait evaluates its channels.
type arrives struct {
	context.Context
	do func()
}

func (a arrives) Done() <-chan struct{} {
	a.do()
	return a.Context.Done()
}

// TestWaitAcknowledgedFirst checks that a request whose records are acknowledged just before the source ends counts as
// acknowledged: whatever Wait chooses of two ends that it finds together.
func TestWaitAcknowledgedFirst(t *testing.T) {
	for range 100 {
		s := newServer(t, nil)
		ctx := arrives{t.Context(), func() {
			if records, err := s.Requests.Next(t.Context(), 1); len(records) != 1 || err != nil {
				t.Errorf("read %d records: %v", len(records), err)
			}
			s.Requests.Ack(1)
			s.Requests.Close()
		}}
		if err := s.Wait(ctx, new(content(1)), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWaitGivesUp checks that no records of a request are read whose sender no longer waits: it repeats the request.
func TestWaitGivesUp(t *testing.T) {
	for name, leaves := range map[string]bool{"late": false, "gone": true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, nil)
			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			if leaves {
				gone()
			}
			if err := s.Wait(ctx, new(content(2)), time.Second); err == nil {
				t.Errorf("%s: it returns without an error", name)
			}
			if n := s.Requests.Waits(); n != 0 {
				t.Errorf("%s: %d records are waited for", name, n)
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

// TestClose checks that the sender of a request without acknowledgement gets an answer when the source ends, and that a
// sender which does not finish its request is disconnected.
func TestClose(t *testing.T) {
	var s *httpserver.Server
	began := make(chan struct{}, 1)
	s = newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		if _, err := io.ReadAll(r.Body); err == nil {
			_, _ = io.WriteString(w, fmt.Sprint(s.Wait(r.Context(), new(content(1)), time.Hour)))
		}
	}))
	s.Timeout = time.Hour
	address := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	if err := s.Listen(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	answer := make(chan string)
	go func() {
		resp, err := http.Get("http://" + address)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(resp.Body)
		answer <- string(text)
	}()
	<-began
	slow, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-began
	ctx, end := context.WithCancel(t.Context())
	closed := make(chan error)
	go func() { closed <- s.Close(ctx) }()
	if got := <-answer; got != httpserver.ErrStopped.Error() {
		t.Errorf("the answer is %q", got)
	}
	end()
	if _, err := io.ReadAll(slow); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
