package sockets_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// lines splits a stream at newlines. The rest does not count.
type lines struct{ *sockets.Reader }

func (l lines) Next() ([]byte, bool, error) {
	line, cut, err := l.Line(nil, "\n")
	if err != nil {
		return nil, false, err
	}
	return line, cut, nil
}

// server returns a server for lines.
func server(ctx context.Context) *sockets.Server {
	return &sockets.Server{
		Acceptor: sockets.Acceptor{Log: slog.New(slog.DiscardHandler), Limit: 10},
		Inbox:    sockets.NewInbox(2, sdk.NewBuffer(ctx)), MaxBytes: 100,
		Framing: func(r io.Reader) sockets.Framing { return lines{sockets.NewReader(r, 100)} },
	}
}

// TestSlowSenders checks that with a time limit a sender that never completes a frame, byte by byte or silently, is
// disconnected, and one that completes frames is not.
func TestSlowSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t.Context())
		s.Idle = 10 * time.Second
		trickle, silent, steady := send(s, "never an end of this line", time.Second), send(s, "", time.Second),
			send(s, strings.Repeat("123456\n", 6), time.Second)
		for name, c := range map[string]*sender{"trickle": trickle, "silent": silent} {
			if err := <-c.ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(c.begin) != s.Idle {
				t.Errorf("%s: %v after %v", name, err, time.Since(c.begin))
			}
		}
		for range 6 {
			all, err := s.Inbox.Take(t.Context(), 1)
			if err != nil || string(all[0].Message) != "123456" {
				t.Fatalf("got %+v, %v", all, err)
			}
			s.Inbox.Ack(1)
		}
		if err := <-steady.ended; !errors.Is(err, io.EOF) {
			t.Errorf("the steady sender: %v", err)
		}
	})
}

// sender is a connection over which text is sent.
type sender struct {
	begin time.Time
	ended chan error // receives the reason why the server has stopped reading
}

// send sends a text to the server with a pause after each byte, and then closes the connection unless it is empty.
func send(s *sockets.Server, text string, pause time.Duration) *sender {
	ours, theirs := net.Pipe()
	c := &sender{time.Now(), make(chan error, 1)}
	go func() {
		c.ended <- s.Receive(theirs, "pipe", s.Framing(theirs))
		_ = theirs.Close()
	}()
	go func() {
		for _, b := range []byte(text) {
			time.Sleep(pause)
			if _, err := ours.Write([]byte{b}); err != nil {
				return
			}
		}
		if text != "" {
			_ = ours.Close()
		}
	}()
	return c
}

// TestHandshake checks that a peer that does not complete the handshake of TLS is disconnected.
func TestHandshake(t *testing.T) {
	_, _, pair := network.Certificate(t)
	synctest.Test(t, func(t *testing.T) {
		s := server(t.Context())
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		l := network.NewPipes()
		s.Serve(l)
		begin := time.Now()
		ours, err := l.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(make([]byte, 1)); err == nil || time.Since(begin) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestBody checks that the memory for a frame grows with the bytes that arrive, not with the announced length.
func TestBody(t *testing.T) {
	const announced = 1 << 29
	r := sockets.NewReader(strings.NewReader("abc"), announced)
	got, _, err := r.Body(announced)
	if string(got) != "abc" || !errors.Is(err, io.ErrUnexpectedEOF) || cap(got) > 1<<20 {
		t.Errorf("got %q with %d bytes of memory, %v", got, cap(got), err)
	}
	text := strings.Repeat("0123456789", 100_000)
	r = sockets.NewReader(strings.NewReader(text+"next"), len(text))
	if got, cut, err := r.Body(len(text)); string(got) != text || cut || err != nil {
		t.Errorf("got %d bytes, %t, %v", len(got), cut, err)
	}
	if got, cut, err := r.Body(4); string(got) != "next" || cut || err != nil {
		t.Errorf("got %q, %t, %v", got, cut, err)
	}
}

// TestLines splits streams that arrive whole and byte by byte, with lines longer than the buffer of the reader.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 16<<10-1) // its carriage return is the last byte in the buffer
	const whole = 1 << 20
	for _, c := range []struct {
		text, delimiters string // "": CRLF
		max              int
		want             []string // a + behind it: it was cut off
	}{
		{"a\nb\x00\nc", "\n\x00", whole, []string{"a", "b", "", "c"}},
		{long + long + "\nb", "\n", whole, []string{long + long, "b"}},
		{long + "\r\n\r\r\na\nb\r\n\r", "", whole, []string{long, "\r", "a\nb", "\r"}},
		{"12345\r\n123456\r\n" + long + "\r\n1", "", 5, []string{"12345", "12345+", "xxxxx+", "1"}},
		{"12345\n123456\n" + long + "\n1", "\n", 5, []string{"12345", "12345+", "xxxxx+", "1"}},
	} {
		for name, stream := range map[string]io.Reader{"whole": strings.NewReader(c.text),
			"byte by byte": iotest.OneByteReader(strings.NewReader(c.text))} {
			r := sockets.NewReader(stream, c.max)
			var next []byte
			var got []string
			for err := error(nil); err == nil; {
				var cut bool
				if c.delimiters == "" {
					next, cut, err = r.LineCRLF()
				} else {
					next, cut, err = r.Line(nil, c.delimiters)
				}
				got = append(got, string(next)+map[bool]string{true: "+"}[cut])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %.200q, want %.200q", name, got, c.want)
			}
		}
	}
}

// TestInboxMemory checks that messages wait for memory, and that one always fits.
func TestInboxMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &plugintest.Memory{Bytes: 10}
		b := sockets.NewInbox(100, sdk.NewBuffer(memory.Context(t.Context())))
		put := make(chan bool, 2)
		go func() {
			for range 2 {
				put <- b.Put(sockets.Received{Message: make([]byte, 20)})
			}
		}()
		synctest.Wait()
		if len(put) != 1 || memory.Used() != 20 {
			t.Errorf("%d messages are queued with %d bytes", len(put), memory.Used())
		}
		if all, err := b.Take(t.Context(), 10); len(all) != 1 || err != nil {
			t.Errorf("got %v, %v", all, err)
		}
		synctest.Wait()
		if len(put) != 2 {
			t.Error("the second message still waits")
		}
		go func() { put <- b.Put(sockets.Received{Message: make([]byte, 20)}) }()
		synctest.Wait()
		b.Close()
		synctest.Wait()
		if <-put; !<-put || <-put || memory.Used() != 0 {
			t.Errorf("after the end %d bytes are used", memory.Used())
		}
	})
}

// TestUnixPeer checks that bytes over a Unix socket count as acknowledged when the peer has read them, also if it has
// closed its end meanwhile, and not when the kernel discards them because it has closed its end without reading them.
func TestUnixPeer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	type step func(theirs net.Conn, ours *sockets.Connection)
	read := func(c net.Conn, _ *sockets.Connection) { _, _ = io.ReadFull(c, make([]byte, 5)) }
	end := func(c net.Conn, _ *sockets.Connection) { _ = c.Close() }
	halfEnd := func(c net.Conn, ours *sockets.Connection) {
		_ = c.(*net.UnixConn).CloseWrite()
		<-ours.Gone()
	}
	for name, c := range map[string]struct {
		peer []step
		want bool
	}{
		"read":                    {[]step{read}, true},
		"read, ended":             {[]step{read, end}, true},
		"ended":                   {[]step{end}, false},
		"half ended, ended":       {[]step{halfEnd, end}, false},
		"half ended":              {[]step{halfEnd}, false},
		"half ended, read":        {[]step{halfEnd, read}, true},
		"half ended, read, ended": {[]step{halfEnd, read, end}, true},
	} {
		ours, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := sockets.Over(ctx, ours, nil, time.Minute, "server")
		if err != nil {
			t.Fatal(err)
		}
		sent, err := conn.Send(ctx, [][]byte{[]byte("abc"), []byte("de")})
		if sent != 5 || err != nil {
			t.Fatalf("%s: sent %d bytes: %v", name, sent, err)
		}
		for _, step := range c.peer {
			step(theirs, conn)
		}
		if err := conn.Wait(ctx, sent); (err == nil) != c.want || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
		_ = theirs.Close()
	}
}
