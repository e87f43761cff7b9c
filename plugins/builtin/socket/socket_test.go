package socket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/socket"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// pairs returns settings from a list of names and values.
func pairs(list ...string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		all[list[i]] = list[i+1]
	}
	return all
}

// source returns an opened source.
func source(t testing.TB, settings ...string) *socket.Source {
	t.Helper()
	s := &socket.Source{}
	return plugintest.OpenSource(t, s, s.Parameters().ApplyDefaults(pairs(settings...)), nil)
}

// destination returns an opened destination, with the settings of the SDK.
func destination(t testing.TB, settings ...string) sdk.Destination {
	t.Helper()
	all := pairs(settings...)
	if all["retry.timeout"] == "" {
		all["retry.timeout"] = "0s"
	}
	d, _ := plugintest.OpenDestination(t, socket.Connector(), "p:d", all)
	return d
}

// freeAddress returns a HOST:PORT that nothing listens at.
func freeAddress(t testing.TB) string { return fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)) }

// connect connects to a Go address.
func connect(t testing.TB, network, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// send sends text over a connection and closes it.
func send(t testing.TB, network, addr, text string) {
	t.Helper()
	c := connect(t, network, addr)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// show returns the payloads of records, with their marks.
func show(records []record.Record) string {
	var all []string
	for i := range records {
		raw, _ := records[i].After.Raw()
		text := string(raw)
		for _, mark := range []string{"truncated", "incomplete"} {
			if records[i].Metadata.Get("socket."+mark) == "true" {
				text += "(" + mark + ")"
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "|")
}

// want reads as many records as want has parts, and compares them.
func want(t testing.TB, s sdk.Source, want string) []record.Record {
	t.Helper()
	got := plugintest.Read(t, s, strings.Count(want, "|")+1)
	if show(got) != want {
		t.Errorf("got %.300q, want %.300q", show(got), want)
	}
	return got
}

func some(texts ...string) (all []record.Record) {
	for _, text := range texts {
		all = append(all, record.Record{Position: record.Position(text), Operation: record.OperationCreate,
			After: record.Raw([]byte(text))})
	}
	return all
}

func write(t testing.TB, d sdk.Destination, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if n, err := d.Write(ctx, some(texts...)); n != len(texts) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(texts), err)
	}
}

func isLost(err error) bool { return errors.As(err, new(interface{ Lost() bool })) }

// TestFraming sends the bytes of each kind of framing, with frames that are empty, too long, and incomplete at the end.
func TestFraming(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		settings   []string
		sent, want string
		torn       bool
	}{
		"lines":     {nil, "a\n\nb c\r\nd\x00e\n", "a|b c\r|d\x00e", false},
		"rest":      {nil, "a\nrest", "a|rest(incomplete)", false},
		"long line": {nil, long + "\nb\n", long[:40] + "(truncated)|b", false},
		"crlf": {[]string{"delimiter", "crlf"},
			"a\nb\r\n\r\r\n" + long[:40] + "\r\nc\r", "a\nb|\r|" + long[:40] + "|c\r(incomplete)", false},
		"nul": {[]string{"delimiter", "nul"}, "a\nb\x00c\x00", "a\nb|c", false},
		"counted": {[]string{"framing", "octet-counted"},
			"1 a0 5 b\nc 1100 " + long + "1 d", "a|b\nc 1|" + long[:40] + "(truncated)|d", false},
		"counted, incomplete": {[]string{"framing", "octet-counted"}, "1 a5 b", "a", true},
		"counted, no space":   {[]string{"framing", "octet-counted"}, "1 a51", "a", true},
		"prefix": {[]string{"framing", "length-prefixed"},
			"\x00\x00\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x02bc", "a|bc", false},
		"prefix, 1 byte": {[]string{"framing", "length-prefixed", "length.bytes", "1"},
			"\x01a\x64" + long + "\x01b", "a|" + long[:40] + "(truncated)|b", false},
		"prefix, little-endian": {[]string{"framing", "length-prefixed", "length.bytes", "2",
			"length.order", "little-endian"}, "\x01\x00a", "a", false},
		"prefix, 8 bytes": {[]string{"framing", "length-prefixed", "length.bytes", "8"},
			"\x00\x00\x00\x00\x00\x00\x00\x01a", "a", false},
		"prefix, incomplete": {[]string{"framing", "length-prefixed", "length.bytes", "1"},
			"\x01a\x05bc", "a", true},
		"prefix, incomplete start": {[]string{"framing", "length-prefixed"}, "\x00\x00\x00\x01a\x00\x00", "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddress(t)
			s := source(t, append(c.settings, "address", "tcp://"+addr, "maxBytes", "40")...)
			send(t, "tcp", addr, c.sent)
			want(t, s, c.want)
			if c.torn {
				wait.For(t, "the incomplete frame is counted", func() bool {
					return strings.Contains(s.Progress().Warning, "1 incomplete frames")
				})
			}
			if w := s.Progress().Warning; strings.Contains(w, "incomplete") != c.torn ||
				strings.Contains(w, "1 frames were longer than maxBytes") != strings.Contains(c.want, "truncated") {
				t.Errorf("the warning is %q", w)
			}
		})
	}
}

// TestHostile checks that a connection with a wrong or enormous length is closed, and that the next one works.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings []string
		sent     string
		good     string
	}{
		"no digits":    {[]string{"framing", "octet-counted"}, "x 1 a", "1 b"},
		"wrong digits": {[]string{"framing", "octet-counted"}, "1x a", "1 b"},
		"negative":     {[]string{"framing", "octet-counted"}, "-1 a", "1 b"},
		"only a space": {[]string{"framing", "octet-counted"}, " a", "1 b"},
		"many digits":  {[]string{"framing", "octet-counted"}, strings.Repeat("9", 1000), "1 b"},
		"4 bytes":      {[]string{"framing", "length-prefixed"}, "GET / HTTP/1.1", "\x00\x00\x00\x01b"},
		"8 bytes": {[]string{"framing", "length-prefixed", "length.bytes", "8"},
			strings.Repeat("\xff", 8), "\x00\x00\x00\x00\x00\x00\x00\x01b"},
		"wrong order": {[]string{"framing", "length-prefixed", "length.order", "little-endian"},
			"\x00\x00\x00\xf0", "\x01\x00\x00\x00b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddress(t)
			s := source(t, append(c.settings, "address", "tcp://"+addr)...)
			bad := connect(t, "tcp", addr)
			_, _ = io.WriteString(bad, c.sent)
			_ = bad.SetReadDeadline(time.Now().Add(wait.Limit))
			if _, err := bad.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection is not closed: %v", err)
			}
			send(t, "tcp", addr, c.good)
			want(t, s, "b")
		})
	}
}

// TestMetadata checks the metadata of a record, over each kind of socket.
func TestMetadata(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, scheme := range []string{"tcp", "udp", "unix", "unixgram"} {
		addr, remote := freeAddress(t), "127.0.0.1"
		if strings.HasPrefix(scheme, "unix") {
			addr, remote = filepath.Join(dir, scheme), ""
		}
		begin := time.Now()
		s := source(t, "address", scheme+"://"+addr)
		send(t, scheme, addr, "one")
		r := plugintest.Read(t, s, 1)[0]
		raw, _ := r.After.Raw()
		if string(raw) != "one" || r.Operation != record.OperationCreate || !r.Key.IsNone() ||
			r.Metadata.Get("socket.protocol") != scheme || r.Metadata.Get("socket.remote") != remote {
			t.Errorf("%s: got %q with %v", scheme, raw, r.Metadata)
		}
		var at int64
		if _, err := fmt.Sscan(r.Metadata.Get(record.KeyReadAt), &at); err != nil || at < begin.UnixNano() ||
			at > time.Now().UnixNano() {
			t.Errorf("%s: it was received at %d: %v", scheme, at, err)
		}
	}
}

// TestPackets checks that a packet is a frame whatever it contains, and that a long one is cut off, also beyond the
// largest packet of UDP.
func TestPackets(t *testing.T) {
	t.Parallel()
	addr, path := freeAddress(t), filepath.Join(t.TempDir(), "s")
	udp := source(t, "address", "udp://"+addr, "maxBytes", "5")
	send(t, "udp", addr, "a\nb")
	want(t, udp, "a\nb")
	send(t, "udp", addr, "123456")
	want(t, udp, "12345(truncated)")
	unixgram := source(t, "address", "unixgram://"+path, "maxBytes", "70000")
	send(t, "unixgram", path, strings.Repeat("x", 70_001))
	want(t, unixgram, strings.Repeat("x", 70_000)+"(truncated)")
}

// TestFull checks that at the limit connections and packets of Unix sockets wait, and packets of UDP are dropped and
// counted, until records are acknowledged.
func TestFull(t *testing.T) {
	t.Parallel()
	ack := func(s sdk.Source, n int) {
		if err := s.Ack(t.Context(), make([]record.Position, n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, scheme := range []string{"tcp", "unix", "unixgram"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			addr := freeAddress(t)
			if scheme != "tcp" {
				addr = filepath.Join(t.TempDir(), "s")
			}
			s := source(t, "address", scheme+"://"+addr, "limit.messages", "2", "limit.connections", "1")
			c := connect(t, scheme, addr)
			for i := range 5 {
				if _, err := fmt.Fprintf(c, "%d\n", i); err != nil {
					t.Fatal(err)
				}
			}
			end := map[bool]string{true: "\n", false: ""}[scheme == "unixgram"]
			want(t, s, fmt.Sprintf("0%s|1%[1]s", end))
			if r := s.Progress(); *r.Records != 2 {
				t.Errorf("%d frames wait, want 2", *r.Records)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if all, err := s.Read(ctx); err == nil {
				t.Errorf("read %q beyond the limit", show(all))
			}
			ack(s, 2)
			want(t, s, fmt.Sprintf("2%s|3%[1]s", end))
			ack(s, 2)
			want(t, s, "4"+end)
		})
	}
	addr := freeAddress(t)
	s := source(t, "address", "udp://"+addr, "limit.messages", "1")
	send(t, "udp", addr, "kept")
	want(t, s, "kept")
	send(t, "udp", addr, "dropped")
	wait.For(t, "a packet is dropped", func() bool {
		return strings.HasPrefix(s.Progress().Warning, "1 messages over UDP were dropped")
	})
	ack(s, 1)
	send(t, "udp", addr, "more")
	want(t, s, "more")
}

// TestConnectionLimit checks that connections beyond the limit are closed.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := source(t, "address", "tcp://"+addr, "limit.connections", "1")
	first := connect(t, "tcp", addr)
	_, _ = io.WriteString(first, "a\n")
	want(t, s, "a")
	if _, err := connect(t, "tcp", addr).Read(make([]byte, 1)); err == nil {
		t.Error("a second connection is open")
	}
	_, _ = io.WriteString(first, "b\n")
	want(t, s, "b")
}

// TestUnixSocket checks the permissions of the file, and when it is removed and replaced.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"unix", "unixgram"} {
		path := filepath.Join(t.TempDir(), "s")
		settings := []string{"address", scheme + "://" + path, "unix.mode", "0620"}
		s := source(t, settings...)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o620 {
			t.Errorf("%s: got %v, %v", scheme, info, err)
		}
		other := &socket.Source{}
		open := func() error {
			return errors.Join(other.Configure(t.Context(), other.Parameters().ApplyDefaults(pairs(settings...))),
				other.Open(t.Context(), nil))
		}
		if err := open(); err == nil || !strings.Contains(err.Error(), "another process listens at "+path) {
			t.Errorf("%s: got %v", scheme, err)
		}
		_ = other.Teardown(t.Context())
		if err := s.Teardown(t.Context()); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is there after the end: %v", scheme, err)
		}
		leave(t, scheme, path)
		s = source(t, settings...)
		send(t, scheme, path, "x")
		want(t, s, map[bool]string{true: "x(incomplete)", false: "x"}[scheme == "unix"])
		// A file that replaced the socket is not the socket's.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Teardown(t.Context()); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: a file of another process was removed: %v", scheme, err)
		}
		if err := open(); err == nil || !strings.Contains(err.Error(), "is not a socket") {
			t.Errorf("%s: got %v", scheme, err)
		}
		_ = other.Teardown(t.Context())
	}
}

// leave leaves the file of a socket that nobody listens at, as a killed process does.
func leave(t *testing.T, scheme, path string) {
	t.Helper()
	if scheme == "unixgram" {
		c, err := net.ListenPacket(scheme, path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		return
	}
	l, err := net.Listen(scheme, path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
}

// TestConfined checks that a Unix socket is only created and used where pipelines may name files, also through a link.
func TestConfined(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	allowed := filepath.Join(dir, "allowed")
	if err := errors.Join(os.Mkdir(allowed, 0o700), os.Symlink(dir, filepath.Join(allowed, "link"))); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: sdk.Logger(t.Context()), AllowPath: func(path string) error {
		if !strings.HasPrefix(path, allowed) {
			return errors.New("not there")
		}
		return nil
	}})
	s, d := &socket.Source{}, &socket.Destination{}
	outside := pairs("address", "unix://"+filepath.Join(dir, "s"))
	for _, err := range []error{s.Configure(ctx, s.Parameters().ApplyDefaults(outside)),
		d.Configure(ctx, d.Parameters().ApplyDefaults(outside))} {
		if err == nil || !strings.Contains(err.Error(), `"address": not there`) {
			t.Errorf("got %v", err)
		}
	}
	linked := pairs("address", "unix://"+filepath.Join(allowed, "link", "s"))
	if err := s.Configure(ctx, s.Parameters().ApplyDefaults(linked)); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, nil); err == nil || !strings.Contains(err.Error(), "not there") {
		t.Errorf("got %v", err)
	}
	_ = s.Teardown(ctx)
}

// TestConnect receives from a server, and again after it has closed the connection.
func TestConnect(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "unix"} {
		addr := "127.0.0.1:0"
		if scheme == "unix" {
			addr = filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(scheme, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		s := source(t, "address", scheme+"://"+l.Addr().String(), "mode", "connect")
		for i := range 3 {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "%d\n", i)
			_ = c.Close()
			want(t, s, fmt.Sprint(i))
		}
		wait.For(t, "the lost connection is reported", func() bool {
			return strings.Contains(s.Progress().Warning, "the server has closed the connection")
		})
	}
}

// TestRoundTrip sends records to the source over each kind of socket and framing, with either side listening.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	cert, key, _ := network.Certificate(t)
	own := []string{"tls.cert", cert, "tls.key", key, "tls.ca", cert}
	cases := map[string][]string{
		"tcp crlf": {"delimiter", "crlf"}, "tcp counted": {"framing", "octet-counted"},
		"tcp prefixed":    {"framing", "length-prefixed"},
		"tcp prefixed, 2": {"framing", "length-prefixed", "length.bytes", "2", "length.order", "little-endian"},
		"tcp prefixed, 8": {"framing", "length-prefixed", "length.bytes", "8"},
		"udp":             nil, "unix": nil, "unixgram": nil, "tls": own, "unix counted": {"framing", "octet-counted"},
	}
	for name, more := range cases {
		for _, listener := range []string{"source", "destination"} {
			scheme, _, _ := strings.Cut(name, " ")
			if listener == "destination" && (scheme == "udp" || scheme == "unixgram") {
				continue
			}
			t.Run(name+", "+listener+" listens", func(t *testing.T) {
				t.Parallel()
				addr := scheme + "://" + freeAddress(t)
				if strings.HasPrefix(scheme, "unix") {
					addr = scheme + "://" + filepath.Join(t.TempDir(), "s")
				}
				settings := append(slices.Clone(more), "address", addr)
				modes := [2]string{"listen", "connect"}
				if listener == "destination" {
					modes = [2]string{"connect", "listen"}
				}
				s := source(t, append(settings, "mode", modes[0])...)
				d := destination(t, append(settings, "mode", modes[1], "retry.timeout", "1m")...)
				write(t, d, "one", "two")
				write(t, d, "three")
				r := want(t, s, "one|two|three")[0]
				if got := r.Metadata.Get("socket.protocol"); got != scheme {
					t.Errorf("the protocol is %q", got)
				}
			})
		}
	}
}

// TestServerReadsLess has a server that closes the first connection before it has read everything. Bytes that its
// kernel has not acknowledged, and over a Unix socket all unread ones, are sent again over another connection.
func TestServerReadsLess(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"tcp", "unix"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			addr := "127.0.0.1:0"
			if scheme == "unix" {
				addr = filepath.Join(t.TempDir(), "s")
			}
			l, err := net.Listen(scheme, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			got := make(chan string, 1)
			go func() {
				first, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.ReadFull(first, make([]byte, 1000))
				_ = first.Close()
				second, err := l.Accept()
				if err != nil {
					return
				}
				b, _ := io.ReadAll(second)
				got <- string(b)
			}()
			d := destination(t, "address", scheme+"://"+l.Addr().String(), "retry.timeout", "1m", "maxBytes", "100000000")
			text := strings.Repeat("x", 16<<20) // more than the kernels hold
			write(t, d, text)
			if err := d.Teardown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b := <-got; b != text+"\n" {
				t.Errorf("the second connection had %d bytes, %.80q…", len(b), b)
			}
		})
	}
}

// TestTLS checks that both sides verify certificates, and that a listener refuses clients without one.
func TestTLS(t *testing.T) {
	t.Parallel()
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	addr := "tls://" + freeAddress(t)
	s := source(t, "address", addr, "tls.cert", serverCert, "tls.key", serverKey, "tls.ca", clientCert)
	for name, own := range map[string][]string{
		"a stranger's server": {"tls.ca", clientCert, "tls.cert", clientCert, "tls.key", clientKey},
		"no certificate":      {"tls.ca", serverCert},
		"a wrong certificate": {"tls.ca", serverCert, "tls.cert", serverCert, "tls.key", serverKey},
		"no TLS":              {"address", strings.Replace(addr, "tls", "tcp", 1)},
	} {
		d := destination(t, append([]string{"address", addr, "timeout", "5s"}, own...)...)
		n, err := d.Write(t.Context(), some("secret"))
		for range 100 { // the server may refuse the client only after its first bytes
			if err != nil {
				break
			}
			n, err = d.Write(t.Context(), some("secret"))
		}
		if !isLost(err) {
			t.Errorf("%s: wrote %d: %v", name, n, err)
		}
	}
	d := destination(t, "address", addr, "tls.ca", serverCert, "tls.cert", clientCert, "tls.key", clientKey)
	write(t, d, "known")
	want(t, s, "known")
}

// TestFrames checks the frame of a record, and which records are refused.
func TestFrames(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := source(t, "address", "tcp://"+addr)
	object := record.Record{Position: record.Position("1"), Operation: record.OperationCreate,
		After: record.Structured(map[string]any{"a": "x\ny"})}
	deleted := record.Record{Position: record.Position("1"), Operation: record.OperationDelete}
	const both = "{{ .Operation }} {{ .Payload.After.a }}"
	for name, c := range map[string]struct {
		settings      []string
		input         record.Record
		want, refused string // one of them is set
	}{
		"raw":                 {nil, some("a b")[0], "a b", ""},
		"object":              {nil, object, `{"a":"x\ny"}`, ""},
		"template, delimiter": {[]string{"frame", both}, object, "", "contains the delimiter"},
		"template, space":     {[]string{"frame", both, "delimiter.inFrame", "space"}, object, "create x y", ""},
		"delete":              {nil, deleted, "", "no payload after the change"},
		"delete, template":    {[]string{"frame", "{{ .Operation }}"}, deleted, "delete", ""},
		"delimiter":           {nil, some("a\nb")[0], "", "contains the delimiter (newline)"},
		"delimiter, crlf": {[]string{"delimiter", "crlf"},
			some("a\r\nb")[0], "", "contains the delimiter (crlf)"},
		"delimiter, nul": {[]string{"delimiter", "nul"}, some("a\x00b")[0], "", "contains the delimiter (nul)"},
		"empty":          {nil, some("")[0], "", "its frame is empty"},
		"too long": {[]string{"maxBytes", "3"},
			some("1234")[0], "", "has 4 bytes, more than maxBytes (3)"},
		"short prefix": {[]string{"framing", "length-prefixed", "length.bytes", "1"},
			some(strings.Repeat("x", 256))[0], "", "is at most 255"},
		"template that fails": {[]string{"frame", "{{ .Payload.After.b }}"}, object, "", "the template of frame"},
	} {
		d := destination(t, append(c.settings, "address", "tcp://"+addr)...)
		n, err := d.Write(t.Context(), []record.Record{c.input})
		switch {
		case c.refused == "" && (n != 1 || err != nil):
			t.Errorf("%s: wrote %d: %v", name, n, err)
		case c.refused == "":
			want(t, s, c.want)
		case n != 0 || err == nil || isLost(err) || !strings.Contains(err.Error(), c.refused):
			t.Errorf("%s: wrote %d: %v, want %q", name, n, err, c.refused)
		}
	}
	udp := destination(t, "address", "udp://"+freeAddress(t), "retry.timeout", "1m")
	if n, err := udp.Write(t.Context(), some(strings.Repeat("x", 70_000))); n != 0 || err == nil || isLost(err) {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestLent checks that the destination does not change the records, which are lent.
func TestLent(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := source(t, "address", "tcp://"+addr)
	array := []byte("a b!c")
	r := some("")[0]
	r.After = record.Raw(array[:3])
	if n, err := destination(t, "address", "tcp://"+addr).Write(t.Context(), []record.Record{r}); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	want(t, s, "a b")
	if string(array) != "a b!c" {
		t.Errorf("the array is %q", array)
	}
}

// TestSettings checks the errors of settings.
func TestSettings(t *testing.T) {
	cert, key, _ := network.Certificate(t)
	long := "unix:///" + strings.Repeat("x", 103)
	for _, c := range []struct {
		want        string
		settings    []string
		source      bool // only the source
		destination bool // only the destination
	}{
		{`"address": must begin with tcp://`, []string{"address", "localhost:1"}, false, false},
		{`"address": must begin with tcp://`, []string{"address", "http://localhost:1"}, false, false},
		{`"address": must have a host and a port`, []string{"address", "tcp://localhost"}, false, false},
		{`"address": must have a host and a port`, []string{"address", "tcp://:1", "mode", "connect"}, false, false},
		{`"address": must be udp://HOST:PORT`, []string{"address", "udp://u:hunter2@x:1"}, false, false},
		{`"address": must have the absolute path`, []string{"address", "unix://s"}, false, false},
		{`"address": must have the absolute path`, []string{"address", "unix://@s"}, false, false},
		{`"address": must have the absolute path`, []string{"address", "unix:///a/../s"}, false, false},
		{`"address": has a path of 104 bytes`, []string{"address", long}, false, false},
		{`"address": must begin with tls://`, []string{"address", "tcp://x:1", "tls.ca", cert}, false, false},
		{`"address": must begin with tls://`, []string{"address", "unix:///s", "tls.insecureSkipVerify", "true"}, false,
			false},
		{`"tls.cert": is required to listen`, []string{"address", "tls://:1", "mode", "listen"}, false, false},
		{`"tls.key": is required`, []string{"address", "tls://x:1", "tls.cert", cert}, false, false},
		{`"tls.cert": cannot be used`, []string{"address", "tls://x:1", "tls.cert", cert, "tls.key", key[:50]}, false,
			false},
		{`"mode": must be listen for packets`, []string{"address", "udp://x:1", "mode", "connect"}, true, false},
		{`"mode": must be connect for packets`, []string{"address", "udp://x:1", "mode", "listen"}, false, true},
		{`"unix.mode"`, []string{"address", "unix:///s", "unix.mode", "rw"}, false, false},
		{`"length.bytes"`, []string{"address", "tcp://x:1", "length.bytes", "3"}, false, false},
		{`"maxBytes"`, []string{"address", "tcp://x:1", "maxBytes", "0"}, false, false},
		{`"frame"`, []string{"address", "tcp://x:1", "frame", "{{ .No"}, false, true},
		{`"address": is required`, nil, false, false},
	} {
		var errs []error
		if s := sdk.Standard(socket.Connector()).NewSource(); !c.destination {
			errs = append(errs, s.Configure(t.Context(), pairs(c.settings...)))
		}
		if d := sdk.Standard(socket.Connector()).NewDestination(); !c.source {
			errs = append(errs, d.Configure(t.Context(), pairs(c.settings...)))
		}
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: got %v, want %q", c.settings, err, c.want)
			}
		}
	}
}
