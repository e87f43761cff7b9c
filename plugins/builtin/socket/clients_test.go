package socket_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// lines reads n lines of a connection.
func lines(t testing.TB, r *bufio.Reader, n int) string {
	t.Helper()
	var all strings.Builder
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", all.String(), err)
		}
		all.WriteString(strings.TrimSuffix(line, "\n"))
	}
	return all.String()
}

// readAll reads the lines of a connection up to its end, as soon as they arrive: a line in a Unix socket is delivered
// when it is read.
func readAll(c net.Conn) <-chan string {
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		for r := bufio.NewScanner(c); r.Scan(); {
			all <- r.Text()
		}
	}()
	return all
}

// writing is a Write in progress.
type writing struct {
	n    int
	err  error
	done chan struct{}
}

func begin(ctx context.Context, d sdk.Destination, texts ...string) *writing {
	w := &writing{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.n, w.err = d.Write(ctx, some(texts...))
	}()
	return w
}

func (w *writing) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// TestClients checks that records wait for a client, that every client gets every record from then on, and that a
// client that leaves holds up nothing.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "unix"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			addr := freeAddress(t)
			if scheme == "unix" {
				addr = filepath.Join(t.TempDir(), "s")
			}
			d := destination(t, "address", scheme+"://"+addr, "mode", "listen")
			waiting := begin(t.Context(), d, "a", "b")
			first := connect(t, scheme, addr)
			one := bufio.NewReader(first)
			if got := lines(t, one, 2); got != "ab" {
				t.Errorf("got %q", got)
			}
			if <-waiting.done; waiting.n != 2 || waiting.err != nil {
				t.Errorf("wrote %d: %v", waiting.n, waiting.err)
			}
			two := readAll(connect(t, scheme, addr))
			number := 0
			for len(two) == 0 { // until the second client gets records
				waiting = begin(t.Context(), d, fmt.Sprint(number))
				if got := lines(t, one, 1); got != fmt.Sprint(number) {
					t.Fatalf("got %q, want %d", got, number)
				}
				<-waiting.done
				number++
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			last := begin(t.Context(), d, "last")
			var got []string
			for len(got) == 0 || got[len(got)-1] != "last" {
				line, open := <-two
				if !open {
					t.Fatalf("the second client only gets %q", got)
				}
				got = append(got, line)
			}
			for i, n := range got[:len(got)-1] {
				if n != fmt.Sprint(number-len(got)+1+i) {
					t.Errorf("the second client gets %q of %d records", got, number)
				}
			}
			if <-last.done; last.n != 1 || last.err != nil {
				t.Errorf("wrote %d: %v", last.n, last.err)
			}
			if err := d.Teardown(t.Context()); err != nil {
				t.Error(err)
			}
			if rest, open := <-two; open {
				t.Errorf("after the end there is %q", rest)
			}
		})
	}
}

// TestNoClient checks that a write without a client ends with its context, and loses no record.
func TestNoClient(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	d := destination(t, "address", "tcp://"+addr, "mode", "listen")
	ctx, cancel := context.WithCancel(t.Context())
	w := begin(ctx, d, "a")
	if w.ended() {
		t.Error("a record is written without a client")
	}
	cancel()
	if <-w.done; w.n != 0 || !isLost(w.err) {
		t.Errorf("wrote %d: %v", w.n, w.err)
	}
	c := connect(t, "tcp", addr)
	w = begin(t.Context(), d, "b")
	if got := lines(t, bufio.NewReader(c), 1); got != "b" {
		t.Errorf("got %q", got)
	}
	<-w.done
}

// TestDiscards checks that with require: none records are written without a client.
func TestDiscards(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	d := destination(t, "address", "tcp://"+addr, "mode", "listen", "require", "none")
	write(t, d, "a", "b")
	got := make(chan string, 1)
	c := connect(t, "tcp", addr)
	go func() { line, _ := bufio.NewReader(c).ReadString('\n'); got <- line }()
	for len(got) == 0 {
		write(t, d, "c")
	}
	if line := <-got; line != "c\n" {
		t.Errorf("got %q", line)
	}
}

// TestClientReadsNothing checks that a client that reads nothing is disconnected after the timeout, and that the other
// client gets everything.
func TestClientReadsNothing(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "unix"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			addr := freeAddress(t)
			if scheme == "unix" {
				addr = filepath.Join(t.TempDir(), "s")
			}
			d := destination(t, "address", scheme+"://"+addr, "mode", "listen", "timeout", "3s")
			idle, reads := connect(t, scheme, addr), connect(t, scheme, addr)
			if tcp, ok := idle.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(4 << 10)
			}
			r := bufio.NewReader(reads)
			text := strings.Repeat("x", 1<<20-10)
			for number := range 20 { // more than all buffers of the kernel hold
				w := begin(t.Context(), d, fmt.Sprint(number, " ", text))
				if got := lines(t, r, 1); !strings.HasPrefix(got, fmt.Sprint(number, " ")) {
					t.Fatalf("got %.20q, want %d", got, number)
				}
				if <-w.done; w.n != 1 || w.err != nil {
					t.Fatalf("wrote %d: %v", w.n, w.err)
				}
			}
			wait.For(t, "the end of the idle connection", func() bool {
				_, err := idle.Write([]byte("x")) // it still reads nothing
				return err != nil
			})
		})
	}
}

// TestClientLimit checks that clients beyond the limit are closed.
func TestClientLimit(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	d := destination(t, "address", "tcp://"+addr, "mode", "listen", "limit.connections", "1")
	first := connect(t, "tcp", addr)
	w := begin(t.Context(), d, "a")
	if got := lines(t, bufio.NewReader(first), 1); got != "a" {
		t.Errorf("got %q", got)
	}
	<-w.done
	if _, err := connect(t, "tcp", addr).Read(make([]byte, 1)); err == nil {
		t.Error("a second client is connected")
	}
}

// TestClientLeaves checks that a record is written when the only client has read it and has left at once.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	d := destination(t, "address", "unix://"+path, "mode", "listen")
	for range 50 {
		w := begin(t.Context(), d, "a")
		c := connect(t, "unix", path)
		if got := lines(t, bufio.NewReader(c), 1); got != "a" {
			t.Fatalf("got %q", got)
		}
		_ = c.Close()
		wait.For(t, "the end of the write", w.ended)
		if w.n != 1 || w.err != nil {
			t.Fatalf("wrote %d: %v", w.n, w.err)
		}
	}
}

// TestEndWhileSending checks that a write to a client that reads nothing ends with its context.
func TestEndWhileSending(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	d := destination(t, "address", "tcp://"+addr, "mode", "listen", "timeout", "24h", "maxBytes", "100000000")
	c := connect(t, "tcp", addr)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := begin(ctx, d, strings.Repeat("x", 64<<20)) // more than the kernels hold
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	wait.For(t, "the end of the write", w.ended)
	if w.n != 0 || !isLost(w.err) {
		t.Errorf("wrote %d: %v", w.n, w.err)
	}
}
