package syslog_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/syslog"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// source returns an opened source, and its address.
func source(t testing.TB, more ...string) (*syslog.Source, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	settings := map[string]string{"address": addr}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return plugintest.OpenSource(t, &syslog.Source{}, settings, nil), addr
}

func read(t testing.TB, s sdk.Source, n int) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(all) < n {
		records, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, records...)
	}
	return all
}

func send(t testing.TB, network, addr, text string) {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// TestMessages has an example of each message format that senders use.
func TestMessages(t *testing.T) {
	t.Parallel()
	s, addr := source(t, "timezone", "Europe/Vienna")
	year := time.Now().Year()
	for message, want := range map[string]string{
		`<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog 42 ID47 [ex@32473 iut="3" s="a\"b\]\\"][x] ` +
			"\xef\xbb\xbfhé": `{"appname":"evntslog","facility":"local4","hostname":"mymachine.example.com","message":"hé",` +
			`"msgid":"ID47","priority":165,"procid":"42","severity":"notice","structured_data":{"ex@32473":{"iut":"3",` +
			`"s":"a\"b]\\"},"x":{}},"timestamp":"2003-10-11T22:14:15.003Z"}`,
		`<13>1 - h - - - [origin ip="192.0.2.1" ip="192.0.2.129"][b x="1"][b x="2" y="3"] m`: `{"facility":"user",` +
			`"hostname":"h",` +
			`"message":"m","priority":13,"severity":"notice","structured_data":{"b":{"x":["1","2"],"y":"3"},` +
			`"origin":{"ip":["192.0.2.1","192.0.2.129"]}}}`,
		`<0>1 - - - - - -`: `{"facility":"kern","message":"","priority":0,"severity":"emerg"}`,
		`<34>Oct 11 22:14:15 mymachine su[7]: 'su root' failed`: fmt.Sprintf(
			`{"appname":"su","facility":"auth","hostname":"mymachine","message":"'su root' `+
				`failed","priority":34,"procid":"7","severity":"crit","timestamp":"%d-10-11T22:14:15+02:00"}`,
			yearOf(year, time.October)),
		`<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!`: fmt.Sprintf(
			`{"facility":"user","hostname":"10.0.0.99","message":"Use the `+
				`BFG!","priority":13,"severity":"notice","timestamp":"%d-02-05T17:32:18+01:00"}`,
			yearOf(year, time.February)),
		`<13>2026-11-22T08:00:00+01:00 box app: x`: `{"appname":"app","facility":"user","hostname":"box","message":"x",` +
			`"priority":13,"severity":"notice","timestamp":"2026-11-22T08:00:00+01:00"}`,
		`<13>Feb  5 17:32:18 app: no host`: fmt.Sprintf(
			`{"appname":"app","facility":"user","message":"no `+
				`host","priority":13,"severity":"notice","timestamp":"%d-02-05T17:32:18+01:00"}`,
			yearOf(year, time.February)),
		`<13>1 2003 broken header`: `{"facility":"user","message":"1 2003 broken ` +
			`header","priority":13,"severity":"notice"}`,
		`<13>1 - - - - - [x a="b" nothing`: `{"facility":"user","message":"1 - - - - - [x ` +
			`a=\"b\" nothing","priority":13,"severity":"notice"}`,
		`no priority at all`: `{"facility":"user","message":"no priority at ` +
			`all","priority":13,"severity":"notice"}`,
		`<999>x`: `{"facility":"user","message":"<999>x","priority":13,"severity":"notice"}`,
	} {
		send(t, "udp", addr, message)
		r := read(t, s, 1)[0]
		object, _ := r.After.Structured()
		got, err := json.Marshal(object)
		if err != nil || !sameJSON(string(got), want) {
			t.Errorf("%s\ngot  %s\nwant %s", message, got, want)
		}
		if r.Metadata.Get("syslog.remote") != "127.0.0.1" || r.Metadata.Get("syslog.protocol") != "udp" {
			t.Errorf("metadata is %v", r.Metadata)
		}
	}
}

// yearOf returns the year of the nearest day in this month.
func yearOf(year int, month time.Month) int {
	switch d := int(month) - int(time.Now().Month()); {
	case d > 6:
		return year - 1
	case d < -6:
		return year + 1
	}
	return year
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	one, _ := json.Marshal(x)
	other, _ := json.Marshal(y)
	return string(one) == string(other)
}

func texts(records []record.Record) string {
	var all []string
	for i := range records {
		if raw, ok := records[i].After.Raw(); ok {
			all = append(all, string(raw))
		}
	}
	return strings.Join(all, "|")
}

func TestFraming(t *testing.T) {
	t.Parallel()
	s, addr := source(t, "raw", "true", "maxBytes", "480")
	send(t, "tcp", addr, "5 <1>ab6 <1>a\nb<1>line\n<2>other\x00<3>rest")
	if got := texts(read(t, s, 5)); got != "<1>ab|<1>a\nb|<1>line|<2>other|<3>rest" {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("x", 600)
	send(t, "tcp", addr, "600 "+long+"<1>"+long+"\n4 next")
	if got := read(t, s, 3); len(texts(got[:1])) != 480 || len(texts(got[1:2])) != 480 || texts(got[2:]) != "next" {
		t.Errorf("got %q", texts(got))
	} else if got[0].Metadata.Get("syslog.truncated") != "true" || got[1].Metadata.Get("syslog.truncated") != "true" ||
		got[2].Metadata.Get("syslog.truncated") != "" {
		t.Error("what is cut off is not marked")
	} else if w := s.Progress().Warning; !strings.Contains(w, "2 messages were longer than maxBytes") {
		t.Errorf("the warning is %q", w)
	}
	send(t, "tcp", addr, "20 half")
	send(t, "tcp", addr, "2026-01-01 a line without a priority\n1234567890 another\n4 good")
	if got := texts(read(t, s, 3)); got != "2026-01-01 a line without a priority|1234567890 another|good" {
		t.Errorf("got %q", got)
	}
}

// TestLimit checks that, at the limit, a connection waits and packets are dropped and reported until messages are
// acknowledged.
func TestLimit(t *testing.T) {
	t.Parallel()
	s, addr := source(t, "raw", "true", "limit.messages", "3", "limit.connections", "1")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "1 12 ab3 abc4 abcd")
	records := read(t, s, 3)
	send(t, "udp", addr, "dropped")
	wait.For(t, "a packet is dropped", func() bool {
		return strings.HasPrefix(s.Progress().Warning, "1 messages over UDP were dropped")
	})
	if r := s.Progress(); *r.Records != 3 {
		t.Errorf("%d messages wait", *r.Records)
	}
	other, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Read(make([]byte, 1)); err == nil {
		t.Error("a second connection is open")
	}
	if err := s.Ack(t.Context(), make([]record.Position, 1)); err != nil {
		t.Fatal(err)
	}
	if got := texts(append(records, read(t, s, 1)...)); got != "1|ab|abc|abcd" {
		t.Errorf("got %q", got)
	}
}

// Unread messages take no more memory than the host allows: connections wait, and packets are dropped.
func TestMemory(t *testing.T) {
	t.Parallel()
	const size, messages = 1000, 50
	memory := &plugintest.Memory{Bytes: 3 * size}
	ctx, s, addr := memory.Context(t.Context()), &syslog.Source{}, fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	if err := errors.Join(s.Configure(ctx, map[string]string{"address": addr, "raw": "true"}),
		s.Open(ctx, nil)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.WithoutCancel(ctx)) })
	send(t, "tcp", addr, strings.Repeat(strings.Repeat("a", size)+"\n", messages))
	wait.For(t, "the memory is used up", func() bool { return memory.Used() == 3*size })
	send(t, "udp", addr, "dropped")
	wait.For(t, "a packet is dropped", func() bool {
		return strings.HasPrefix(s.Progress().Warning, "1 messages over UDP were dropped")
	})
	if records := read(t, s, messages); strings.Contains(texts(records), "dropped") {
		t.Error("a packet was read that was dropped")
	}
	if memory.Used() != 0 || memory.Most() > 3*size {
		t.Errorf("%d bytes are taken, %d at most, want 0 and %d", memory.Used(), memory.Most(), 3*size)
	}
}

func destination(t testing.TB, addr string, more ...string) sdk.Destination {
	t.Helper()
	settings := map[string]string{"address": addr, "sdk.record.format": "template",
		"sdk.record.format.options": `{{ printf "%s" .Payload.After }}`, "retry.timeout": "0s"}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	d := sdk.Standard(syslog.Connector()).NewDestination()
	if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings)); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

func some(texts ...string) (all []record.Record) {
	for _, text := range texts {
		r := record.Record{Position: record.Position(text), Operation: record.OperationCreate,
			After: record.Raw([]byte(text))}
		r.Metadata.Set("level", "warning")
		all = append(all, r)
	}
	return all
}

// TestRoundTrip sends messages to the source, and compares the parsed ones.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	begin := time.Now().Truncate(time.Second) // the precision of RFC 3164
	s, addr := source(t, "timezone", "Local")
	for _, more := range [][]string{
		{"protocol", "tcp"}, {"protocol", "udp"}, {"protocol", "tcp", "format", "rfc3164"},
		{"protocol", "tcp", "framing", "newline"},
	} {
		d := destination(t, addr, append(more, "severity", "{{ .Metadata.level }}", "facility", "local7", "hostname",
			"a box", "appname", "{{ .Operation }}", "procid", "9")...)
		if n, err := d.Write(t.Context(), some("with\nnewline", "x")); n != 2 || err != nil {
			t.Fatalf("%v: wrote %d: %v", more, n, err)
		}
		m, _ := read(t, s, 2)[0].After.Structured()
		if m["severity"] != "warning" || m["facility"] != "local7" || m["hostname"] != "a_box" ||
			m["appname"] != "create" || m["procid"] != "9" || !strings.HasPrefix(m["message"].(string), "with") {
			t.Errorf("%v: got %v", more, m)
		}
		if at, err := time.Parse(time.RFC3339Nano, m["timestamp"].(string)); err != nil || at.Before(begin) ||
			at.After(time.Now()) {
			t.Errorf("%v: got the time %v: %v", more, m["timestamp"], err)
		}
		if _, err := d.Write(t.Context(), []record.Record{{Position: record.Position("x")}}); err == nil ||
			errors.As(err, new(interface{ Lost() bool })) {
			t.Errorf("%v: a record without a severity is not refused: %v", more, err)
		}
	}
}

// TestTLS checks that both sides verify certificates, and that the source refuses clients without one.
func TestTLS(t *testing.T) {
	t.Parallel()
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	s, addr := source(t, "protocols", "tcp", "tls.cert", serverCert, "tls.key", serverKey, "tls.ca", clientCert)
	d := destination(t, addr, "protocol", "tls", "tls.ca", serverCert, "tls.cert", clientCert, "tls.key", clientKey)
	if n, err := d.Write(t.Context(), some("secret")); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	r := read(t, s, 1)[0]
	if m, _ := r.After.Structured(); m["message"] != "secret" || r.Metadata.Get("syslog.protocol") != "tls" {
		t.Errorf("got %v with %v", m, r.Metadata)
	}
	stranger := destination(t, addr, "protocol", "tls", "tls.ca", clientCert)
	if _, err := stranger.Write(t.Context(), some("x")); err == nil || !errors.As(err, new(interface{ Lost() bool })) {
		t.Errorf("got %v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(serverCert))
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}) // without a certificate
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		_ = c.Close()
	}
	if err == nil {
		t.Error("a client without a certificate is let in")
	}
}

// TestServerGone sends to a server that closes the first connection. The kernel may lose some messages, as the protocol
// has no acknowledgements; once the destination notices, nothing more is lost.
func TestServerGone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	second, lines := make(chan struct{}), make(chan string, 1)
	go func() {
		first, err := l.Accept()
		if err != nil {
			return
		}
		_ = first.Close()
		c, err := l.Accept()
		if err != nil {
			return
		}
		close(second)
		b, _ := io.ReadAll(c)
		lines <- string(b)
	}()
	d := destination(t, l.Addr().String(), "retry.timeout", "10s", "framing", "newline")
	sent := 0
	write := func() {
		sent++
		if n, err := d.Write(t.Context(), some(fmt.Sprintf("number %d", sent))); n != 1 || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
	}
	wait.For(t, "another connection", func() bool {
		write()
		select {
		case <-second:
			return true
		default:
			return false
		}
	})
	write()
	if err := d.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(<-lines, "\n"), "\n")
	for i, line := range got {
		if want := fmt.Sprintf(" number %d", sent-len(got)+1+i); !strings.HasSuffix(line, want) {
			t.Errorf("line %d of %d is %q, want%s", i+1, len(got), line, want)
		}
	}
}

// TestServerGoneWhileSending checks that a record is sent again if the connection was reset while it was sent.
func TestServerGoneWhileSending(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		first, err := l.Accept()
		if err != nil {
			return
		}
		tcp := first.(*net.TCPConn)
		_ = tcp.SetReadBuffer(4 << 10)     // leaves most of the record in the sender's queue
		_, _ = io.ReadFull(tcp, []byte{0}) // the destination is sending
		_ = errors.Join(tcp.SetLinger(0), tcp.Close())
		c, err := l.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(c)
		lines <- string(b)
	}()
	d := destination(t, l.Addr().String(), "retry.timeout", "1m", "framing", "newline")
	text := strings.Repeat("x", 16<<20)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if n, err := d.Write(ctx, some(text)); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	if err := errors.Join(d.Teardown(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
	if got := <-lines; !strings.HasSuffix(got, " "+text+"\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("the second connection had %d bytes, %.80q…", len(got), got)
	}
}

func TestSettings(t *testing.T) {
	cert, key, _ := network.Certificate(t)
	for text, settings := range map[string]map[string]string{
		`"address": must be`:            {"address": "nowhere"},
		`"protocols": must be udp`:      {"protocols": "sctp"},
		`"protocols": must be tcp with`: {"tls.cert": cert, "tls.key": key},
		`"timezone": must be a time zone such as Europe/Vienna or UTC, not "Nowhere"`: {"timezone": "Nowhere"},
	} {
		s := &syslog.Source{}
		if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	for text, settings := range map[string]map[string]string{
		`"address": must be`:         {"address": ":514"},
		`"severity": must be one of`: {"severity": "worse"},
		`"msgid"`:                    {"msgid": "{{ .No"},
	} {
		d := &syslog.Destination{}
		all := d.Parameters().ApplyDefaults(map[string]string{"address": "x:1"})
		for k, v := range settings {
			all[k] = v
		}
		if err := d.Configure(t.Context(), all); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}
