package builtin_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

// locked is a log that several goroutines may write to.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts a server with a limit of connections. It answers a request to /wait once waiting is closed. idle
// receives a value when a connection waits for its next request.
func serve(t *testing.T, limit int) (addr string, waiting, idle chan struct{}, log *locked) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	waiting, idle, log = make(chan struct{}), make(chan struct{}, 10), new(locked)
	limited := common.LimitConnections(l, limit, slog.New(slog.NewTextHandler(log, nil)))
	observe := func(c net.Conn, state http.ConnState) {
		if limited.Observe(c, state); state == http.StateIdle {
			idle <- struct{}{}
		}
	}
	server := &http.Server{ConnState: observe,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-waiting
			}
		})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(limited) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return l.Addr().String(), waiting, idle, log
}

// connect sends a request, and returns the connection and whether the request was answered.
func connect(t *testing.T, addr, path string) (net.Conn, bool) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	return c, err == nil && strings.Contains(line, "200")
}

func ends(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a connection that waits did not end: %v", err)
	}
}

// Connections that wait for a request make room for new ones; connections with a request in progress do not.
func TestLimit(t *testing.T) {
	addr, waiting, idle, log := serve(t, 2)
	first, ok := connect(t, addr, "/")
	<-idle
	second, ok2 := connect(t, addr, "/")
	if !ok || !ok2 {
		t.Fatal("connections within the limit are not answered")
	}
	<-idle
	_, ok = connect(t, addr, "/wait")
	ends(t, first)
	_, ok2 = connect(t, addr, "/wait")
	ends(t, second)
	if !ok || !ok2 {
		t.Fatal("connections that wait do not make room for new ones")
	}
	if _, ok := connect(t, addr, "/"); ok {
		t.Error("there are more connections than allowed")
	}
	close(waiting)
	if !strings.Contains(log.String(), "limit.connections") {
		t.Errorf("the log is %q", log.String())
	}
}

// All sources together leave half of the file descriptors unused.
func TestShareOfDescriptors(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	most := min(limit.Cur, 1<<20) / 2
	taken := uint64(0)
	for ; taken <= most && common.TakeConnection(); taken++ {
	}
	defer func() {
		for range taken {
			common.ReleaseConnection()
		}
	}()
	if limit.Cur <= 1<<20 && taken != most {
		t.Errorf("%d connections were taken of %d descriptors", taken, limit.Cur)
	}
}
