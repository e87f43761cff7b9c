package builtin_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// peer is a server that behaves correctly until the connection is established, and then sends hostile data chosen by a
// test.
type peer struct {
	connector   string
	settings    map[string]string // ADDR stands for the address of the server
	destination bool
	handshake   func(c net.Conn, r *bufio.Reader) error
}

// mysqlPacket returns a packet with a sequence number.
func mysqlPacket(number byte, payload ...byte) []byte {
	return append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), number}, payload...)
}

// mysqlIn reads a packet.
func mysqlIn(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err := io.ReadFull(r, b)
	return b, err
}

func mysqlHandshake(c net.Conn, r *bufio.Reader) error {
	greeting := append([]byte{10}, "8.0.0\x00\x01\x00\x00\x00abcdefgh\x00\xff\xf7\x2d\x02\x00\xff\x01\x15"...)
	greeting = append(append(greeting, make([]byte, 10)...), "ijklmnopqrst\x00mysql_native_password\x00"...)
	_, _ = c.Write(mysqlPacket(0, greeting...))
	if _, err := mysqlIn(r); err != nil {
		return err
	}
	_, _ = c.Write(mysqlPacket(2, 0, 0, 0, 2, 0, 0, 0))
	_, err := mysqlIn(r) // the first command
	return err
}

// natsHandshake sends the greeting, and waits for the first subscription.
func natsHandshake(c net.Conn, r *bufio.Reader) error {
	_, _ = io.WriteString(c, `INFO {"server_id":"x","version":"2.12.0","proto":1,"headers":true,"max_payload":1048576}`+
		"\r\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(line, "PING"):
			_, _ = io.WriteString(c, "PONG\r\n")
		case strings.HasPrefix(line, "SUB"):
			return nil
		}
	}
}

func postgresHandshake(c net.Conn, r *bufio.Reader) error {
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		body := make([]byte, max(0, int(binary.BigEndian.Uint32(head))-4))
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if len(body) > 4 && binary.BigEndian.Uint32(body) != 80877103 { // not a request for TLS
			break
		}
		_, _ = c.Write([]byte("N"))
	}
	_, _ = io.WriteString(c, "R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I")
	_, err := r.Peek(1)
	return err
}

func firstByte(_ net.Conn, r *bufio.Reader) error {
	_, err := r.Peek(1)
	return err
}

// mqttHandshake accepts a client.
func mqttHandshake(c net.Conn, r *bufio.Reader) error {
	if _, err := r.Peek(2); err != nil {
		return err
	}
	_, err := c.Write([]byte{0x20, 0x03, 0x00, 0x00, 0x00})
	return err
}

// kafkaHandshake waits for the first request.
func kafkaHandshake(_ net.Conn, r *bufio.Reader) error {
	_, err := r.Peek(14)
	return err
}

// requestHandshake reads the header of an HTTP request.
func requestHandshake(_ net.Conn, r *bufio.Reader) error {
	_, err := http.ReadRequest(r)
	return err
}

// webSocketHandshake opens a WebSocket.
func webSocketHandshake(c net.Conn, r *bufio.Reader) error {
	request, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	sum := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	return err
}

var peers = map[string]peer{
	"redis list": {"redis", map[string]string{"url": "redis://ADDR", "key": "k", "type": "list", "timeout": "2s"},
		false, firstByte},
	"redis stream": {"redis", map[string]string{"url": "redis://ADDR", "key": "k", "type": "stream", "timeout": "2s"},
		false, firstByte},
	"redis channel": {"redis", map[string]string{"url": "redis://ADDR", "key": "k", "type": "pubsub", "timeout": "2s"},
		false, firstByte},
	"redis write": {"redis", map[string]string{"url": "redis://ADDR", "key": "k", "timeout": "2s"}, true, firstByte},
	"mysql": {"mysql", map[string]string{"address": "ADDR", "user": "u", "database": "d", "timeout": "2s"},
		false, mysqlHandshake},
	"mysql write": {"mysql", map[string]string{"address": "ADDR", "user": "u", "database": "d", "timeout": "2s",
		"table": "t"}, true, mysqlHandshake},
	"mysql login": {"mysql", map[string]string{"address": "ADDR", "user": "u", "database": "d", "timeout": "2s"},
		false, nil},
	"nats core": {"nats", map[string]string{"url": "nats://ADDR", "type": "core", "subjects": "foo",
		"timeout": "2s"}, false, natsHandshake},
	"nats stream": {"nats", map[string]string{"url": "nats://ADDR", "stream": "S", "timeout": "2s"}, false,
		natsHandshake},
	"nats greeting": {"nats", map[string]string{"url": "nats://ADDR", "type": "core", "subjects": "foo",
		"timeout": "2s"}, false, nil},
	"postgres": {"postgres", map[string]string{"url": "postgres://u@ADDR/d?sslmode=disable", "tables": "t"}, false,
		postgresHandshake},
	"postgres login": {"postgres", map[string]string{"url": "postgres://u@ADDR/d?sslmode=disable", "tables": "t"},
		false, firstByte},
	"mqtt": {"mqtt", map[string]string{"url": "mqtt://ADDR", "topics": "t", "timeout": "2s"}, false,
		mqttHandshake},
	"kafka": {"kafka", map[string]string{"servers": "ADDR", "topics": "t", "timeout": "2s"}, false,
		kafkaHandshake},
	"http": {"http", map[string]string{"url": "http://ADDR/", "timeout": "2s"}, false, requestHandshake},
	"s3": {"s3", map[string]string{"aws.bucket": "b", "aws.region": "r", "aws.endpoint": "http://ADDR",
		"aws.accessKeyId": "i", "aws.secretAccessKey": "s", "timeout": "2s"},
		false, requestHandshake},
	"datadog": {"datadog", map[string]string{"url": "http://ADDR", "auth.apiKey": "k", "timeout": "2s",
		"retry.timeout": "0s"}, true, requestHandshake},
	"influxdb": {"influxdb", map[string]string{"url": "http://ADDR", "org": "o", "bucket": "b", "measurement": "m",
		"timeout": "2s", "retry.timeout": "0s"}, true, requestHandshake},
	"loki": {"loki", map[string]string{"url": "http://ADDR", "labels.job": "j", "timeout": "2s",
		"retry.timeout": "0s"}, true, requestHandshake},
	"prometheus": {"prometheus", map[string]string{"url": "http://ADDR", "name": "m", "value": "1", "timeout": "2s",
		"retry.timeout": "0s"}, true, requestHandshake},
	"prometheus scrape": {"prometheus", map[string]string{"mode": "scrape", "targets": "http://ADDR/metrics",
		"timeout": "2s", "interval": "2s"}, false, requestHandshake},
	"splunk": {"splunk", map[string]string{"url": "http://ADDR", "auth.hecToken": "t", "acknowledge": "true",
		"timeout": "2s", "retry.timeout": "0s"}, true, requestHandshake},
	"websocket": {"websocket", map[string]string{"url": "ws://ADDR", "timeout": "2s"}, false, webSocketHandshake},
	"websocket write": {"websocket", map[string]string{"url": "ws://ADDR", "timeout": "2s", "retry.timeout": "0s"}, true,
		webSocketHandshake},
	"elasticsearch": {"elasticsearch", map[string]string{"url": "http://ADDR", "index": "t", "timeout": "2s",
		"retry.timeout": "0s"}, true, requestHandshake},
}

// outcome is the result of a connector's session with a hostile peer.
type outcome struct {
	err       error // last error of the connector
	allocated uint64
	sent      int64 // bytes that the connector or the kernel accepted
}

// said collects the errors, warnings and log lines of a connector.
type said struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p[:min(len(p), 1000)])
	select {
	case s.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *said) has(text string) bool { return strings.Contains(s.String(), text) }

// String returns the collected text.
func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// meet runs a connector against a peer that calls send after the handshake. It returns when the connector has failed,
// or has ended such a connection and reported the reason.
func meet(t testing.TB, p peer, send func(io.Writer) error, why string) (o outcome) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	ended := make(chan struct{})
	var once sync.Once
	var sent atomic.Int64
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer func() { _ = c.Close() }()
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				defer stop()
				r := bufio.NewReader(c)
				if p.handshake != nil && p.handshake(c, r) != nil {
					return
				}
				if send(&counted{c, &sent}) == nil {
					_ = c.(*net.TCPConn).CloseWrite()
				}
				_, _ = io.Copy(io.Discard, r)
				once.Do(func() { close(ended) })
			})
		}
	})
	before := allocated()
	done := make(chan struct{})
	words := &said{more: make(chan struct{}, 1)}
	go func() {
		defer close(done)
		o.err = employ(sdk.WithEnv(ctx,
			&sdk.Env{ConnectorID: "p:c", Logger: slog.New(slog.NewTextHandler(words, nil))}), t, p, l.Addr().String())
		_, _ = fmt.Fprint(words, o.err)
	}()
	select {
	case <-ended:
	case <-done:
	}
	for running := true; running && !words.has(why); {
		select {
		case <-words.more:
		case <-done:
			running = false
		}
	}
	cancel()
	<-done
	o.allocated = allocated() - before
	if !words.has(why) {
		t.Errorf("it says %.300s; want %q", words, why)
	}
	_ = l.Close()
	served.Wait()
	o.sent = sent.Load()
	if panicked := (*sdk.PanicError)(nil); errors.As(o.err, &panicked) {
		t.Errorf("it panicked: %v\n%s", panicked, panicked.Stack)
	}
	return o
}

type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// employ opens the connector and reads, or writes one record, until ctx ends or an error occurs.
func employ(ctx context.Context, t testing.TB, p peer, addr string) error {
	settings := map[string]string{}
	for name, value := range p.settings {
		settings[name] = strings.ReplaceAll(value, "ADDR", addr)
	}
	for _, c := range builtin.All() {
		if c.Name != p.connector {
			continue
		}
		if p.destination {
			d := c.NewDestination()
			defer func() { _ = d.Teardown(context.Background()) }()
			return sdk.Contain(func() error {
				if err := d.Configure(ctx, d.Parameters().ApplyDefaults(settings)); err != nil {
					t.Error(err)
				}
				if err := d.Open(ctx); err != nil {
					return err
				}
				_, err := d.Write(ctx, []record.Record{{Position: record.Position("1"),
					Operation: record.OperationCreate, After: record.Raw([]byte(`{"a":1}`))}})
				return err
			})
		}
		s := c.NewSource()
		defer func() { _ = s.Teardown(context.Background()) }()
		return sdk.Contain(func() error {
			if err := s.Configure(ctx, s.Parameters().ApplyDefaults(settings)); err != nil {
				t.Error(err)
			}
			if err := s.Open(ctx, nil); err != nil {
				return err
			}
			for {
				if _, err := s.Read(ctx); err != nil {
					return err
				}
			}
		})
	}
	return errors.New("there is no such connector")
}

// text returns a function that sends s.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// endless returns a function that sends begin, and then repeats rest until the other side stops reading.
func endless(begin, rest string) func(io.Writer) error {
	block := []byte(strings.Repeat(rest, max(1, 64<<10/len(rest))))
	return func(w io.Writer) error {
		if _, err := io.WriteString(w, begin); err != nil {
			return err
		}
		for {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
	}
}

func mysqlSends(payload ...byte) func(io.Writer) error {
	return text(string(mysqlPacket(1, payload...)))
}

// largePackets sends one message in packets of the maximum size.
func largePackets(w io.Writer) error {
	const largest = 1<<24 - 1
	block := make([]byte, 4+largest)
	for block[3] = 1; ; block[3]++ {
		copy(block, "\xff\xff\xff")
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
}

func answerOf(header string, body ...string) func(io.Writer) error {
	return text("HTTP/1.1 200 OK\r\n" + header + "\r\n\r\n" + strings.Join(body, ""))
}

// headerLines returns n headers with different names.
func headerLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.Write([]byte{'a' + byte(i%16), 'a' + byte(i/16%16), 'a' + byte(i/256%16), 'a' + byte(i/4096%16), ':', '\n'})
	}
	return b.String()
}

// hostile lists the data that the peers of each connector send. If why is set, an error or warning of the connector
// must contain it.
var hostile = map[string]map[string]struct {
	send func(io.Writer) error
	why  string
}{
	"redis": {
		"array":          {text("*9999999999999\r\n"), "announces a reply"},
		"value":          {text("$99999999999999\r\n"), "announces a value"},
		"negative":       {text("$-7\r\n"), "is not a length"},
		"memory":         {text("*2\r\n$40000000\r\n"), "announces"},
		"nested":         {endless("", "*1\r\n"), "nested"},
		"wide nested":    {text(strings.Repeat("*500000\r\n", 8)), "announces a reply"},
		"line":           {endless("+", "a"), "a line has more than"},
		"digits":         {endless("*", "1"), "a line has more than"},
		"error":          {endless("-ERR ", "a"), "a line has more than"},
		"wrong type":     {text("%2\r\n"), "begins no reply"},
		"longer":         {text("$1\r\nabcdef\r\n"), "longer than announced"},
		"cut off":        {text("$100\r\nabc"), ""},
		"overflow":       {text("*18446744073709551617\r\n"), "is not a length"},
		"nothing":        {text(""), ""},
		"another answer": {text(":1\r\n:1\r\n:1\r\n"), ""},
		"tiny elements":  {endless("*1500000\r\n", "*0\r\n"), "announces a reply"},
		"tiny values":    {text("*500000\r\n" + strings.Repeat("$1\r\na\r\n", 500_000)), ""},
		"empty arrays":   {text("*0\r\n*-1\r\n*1\r\n*-1\r\n"), ""},
	},
	"mysql": {
		"columns":       {mysqlSends(0xfe, 0, 0x10, 0xa5, 0xd4, 0xe8, 0, 0, 0), "announces a result"},
		"5000 columns":  {mysqlSends(0xfc, 0x88, 0x13), "announces a result of 5000 columns"},
		"trailing":      {mysqlSends(0xfe, 0, 0x10, 0xa5, 0xd4, 0xe8, 0, 0, 0, 1, 2, 3), "announces a result"},
		"short number":  {mysqlSends(0xfe, 1), ""},
		"short OK":      {mysqlSends(0), ""},
		"short error":   {mysqlSends(0xff, 1, 2), ""},
		"local file":    {mysqlSends(append([]byte{0xfb}, "/etc/passwd"...)...), "asks for a file"},
		"empty packet":  {mysqlSends(), "empty"},
		"large message": {largePackets, "announces a message"},
		"row":           {text(string(mysqlPacket(1, 1)) + string(mysqlPacket(2, 3, 'd'))), ""},
		"huge string": {text(string(mysqlPacket(1, 1)) + string(mysqlPacket(2, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 0xff, 0xff))), ""},
		"tiny elements": {text(string(mysqlPacket(1, 0xfc, 0x00, 0x10)) + strings.Repeat(string(mysqlPacket(2, 0)),
			4096)), ""},
		"more results": {endless("", string(mysqlPacket(1, 0, 0, 0, 8, 0, 0, 0))), ""},
	},
	"nats": {
		"size":         {text("MSG foo 1 99999999999999\r\n"), "announces a message"},
		"largest":      {text("MSG foo 1 9223372036854775807\r\n"), "announces a message"},
		"overflow":     {text("MSG foo 1 18446744073709551617\r\n"), "announces a message"},
		"negative":     {text("MSG foo 1 -1\r\n"), "announces a message"},
		"headers":      {text("HMSG foo 1 10 5\r\n"), "headers of a message"},
		"huge headers": {text("HMSG foo 1 99999999999999 99999999999999\r\n"), "announces a message"},
		"line":         {endless("MSG ", "a"), "a line has more than"},
		"INFO":         {endless("INFO ", "a"), "a line has more than"},
		"error":        {endless("-ERR '", "a"), "a line has more than"},
		"errors":       {endless("", "-ERR 'Permissions Violation for x'\r\n"), "errors a second"},
		"bare lines":   {text("MSG \nfoo 1 5\r\n"), "does not end with CR LF"},
		"longer":       {text("MSG foo 1 1\r\nabc\r\n"), "longer than announced"},
		"many headers": {text("HMSG foo 1 12000012 12000012\r\nNATS/1.0\r\n" + headerLines(2_000_000) + "\r\n\r\n"),
			""},
		"bad headers": {text("HMSG foo 1 3 3\r\nabc\r\nMSG foo 1 0\r\n\r\n"), ""},
		"nothing":     {text(""), ""},
	},
	"postgres": {
		"length":         {text("T\x7f\xff\xff\xff"), "announces a message"},
		"short":          {text("T\x00\x00\x00\x03"), "announces a message"},
		"error":          {text("E\x01\x31\x2d\x00"), "announces a message"},
		"notice":         {text("N\x7f\xff\xff\xff"), "announces a message"},
		"parameters":     {endless("", "S\x00\x00\x00\x08ab\x00\x00"), "reports parameters"},
		"columns":        {text("T\x00\x00\x00\x06\xff\xff"), ""},
		"tiny elements":  {text("T\x00\x12\xff\xf3\xff\xff" + strings.Repeat("\x00", 19*65535)), ""},
		"row":            {text("D\x00\x00\x00\x06\xff\xff"), ""},
		"copy":           {text("W\x00\x00\x00\x07\x00\xff\xff"), ""},
		"wrong type":     {text("?\x00\x00\x00\x04"), ""},
		"authentication": {text("R\x00\x00\x00\x08\x00\x00\x00\x63"), ""},
	},
	"mqtt": {
		"length":  {text("\x30\xff\xff\xff\x7f"), ""},
		"lengths": {text("\x30\xff\xff\xff\xff\xff"), ""},
		"topic":   {text("\x30\x05\xff\xffabc"), ""},
		"strange": {text("\x00\x00\xf0\x00"), ""},
		// A message of 2 MB with 400,000 properties, and an acknowledgement longer than the limit.
		"properties": {text("\x30\x86\x89\x7a\x00\x01t\x80\x89\x7a" +
			strings.Repeat("\x26\x00\x00\x00\x00", 400_000)), "skipping a message"},
		"acknowledgement": {endless("\x90\xff\xff\xff\x01\x00\x01\x00", "\x00"), "announces a packet of type 9"},
	},
	"kafka": {
		"length":   {text("\x7f\xff\xff\xff\x00\x00\x00\x00"), ""},
		"negative": {text("\xff\xff\xff\xff\x00\x00\x00\x00"), ""},
		"large":    {endless("\x05\x00\x00\x00\x00\x00\x00\x00", "\x00"), ""},
		"tiny elements": {text("\x00\x03\xff\xf0\x00\x00\x00\x00\x00\x00\x00\x00\xaa\xa0" + strings.Repeat("\x00",
			262_114)), ""},
		"versions": {text("\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00"), ""},
	},
	"http": {
		"header":        {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"line":          {endless("HTTP/1.1 200 ", "a"), ""},
		"body":          {endless("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[", "1,"), ""},
		"length":        {endless("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", "[1,"), ""},
		"chunk":         {text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), ""},
		"tiny elements": {endless("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[", "{},"), ""},
		"interim":       {endless("", "HTTP/1.1 103 Early Hints\r\na: b\r\n\r\n"), ""},
	},
	"datadog": {
		"header":    {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"body":      {endless("HTTP/1.1 200 OK\r\n\r\n", "a"), "more than 8388608 bytes"},
		"page":      {answerOf("Connection: close", "<html>"), "check url"},
		"no length": {text("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n{"), ""},
	},
	"influxdb": {
		"header":    {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"body":      {endless("HTTP/1.1 200 OK\r\n\r\n", "a"), "more than 8388608 bytes"},
		"page":      {answerOf("Connection: close", "<html>"), "check url"},
		"no length": {text("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n{"), ""},
	},
	"loki": {
		"header":    {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"body":      {endless("HTTP/1.1 200 OK\r\n\r\n", "a"), "more than 8388608 bytes"},
		"page":      {answerOf("Connection: close", "<html>"), "check url"},
		"no length": {text("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n{"), ""},
	},
	"prometheus": {
		"header":    {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"body":      {endless("HTTP/1.1 200 OK\r\n\r\n", "a"), "more than 8388608 bytes"},
		"page":      {answerOf("Connection: close", "<html>"), "it is a page"},
		"no length": {text("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n{"), ""},
	},
	"splunk": {
		"header": {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"body":   {endless("HTTP/1.1 200 OK\r\n\r\n", "a"), "more than 8388608 bytes"},
		"nested": {answerOf("Connection: close", `{"code":`, strings.Repeat("[", 5_000_000)), "check url"},
		"number": {answerOf("Connection: close", `{"code":`, strings.Repeat("1", 5_000_000), "}"), "check url"},
		"no id":  {answerOf("Connection: close", `{"code":0}`), "has no ackId"},
	},
	"elasticsearch": {
		"header":        {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"body":          {endless("HTTP/1.1 200 OK\r\n\r\n", "a"), "more than 8388608 bytes"},
		"tiny elements": {endless("HTTP/1.1 200 OK\r\n\r\n{\"items\":[", "{},"), "more than 8388608 bytes"},
		"results": {answerOf("Connection: close", `{"items":[`, strings.Repeat(`{"index":{"status":201}},`, 300_000)),
			"more than 1 results"},
		"nested":    {answerOf("Connection: close", `{"items":[`, strings.Repeat("[", 5_000_000)), "check url"},
		"no length": {text("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n{"), ""},
	},
	"websocket": {
		"length":         {text("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), ""},
		"negative":       {text("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), ""},
		"control frame":  {endless("\x89\x7f\x00\x00\x00\x00\x7f\xff\xff\xff", "a"), "invalid length"},
		"reserved bits":  {endless("\xf2\x01a", "a"), "rsv bits"},
		"unknown opcode": {text("\x83\x00"), "unknown opcode"},
		"close":          {text("\x88\x05\x03\xf0bye"), "status 1008"},
		"nothing":        {text(""), "without a close frame"},
		"another answer": {text("HTTP/1.1 200 OK\r\n\r\n"), ""},
	},
	"s3": {
		"header":  {endless("HTTP/1.1 200 OK\r\n", "a: b\r\n"), ""},
		"listing": {endless("HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>", "<Contents/>"), ""},
		"entries": {answerOf("Connection: close", "<ListBucketResult>", strings.Repeat("<Contents/>", 700_000),
			"</ListBucketResult>"), "elements"},
		"attributes": {answerOf("Connection: close", "<ListBucketResult", strings.Repeat(" a=''", 1_500_000),
			"></ListBucketResult>"), "elements"},
		"nested": {endless("HTTP/1.1 200 OK\r\n\r\n", "<a>"), ""},
		"negative": {answerOf("Connection: close",
			"<ListBucketResult><Contents><Key>a</Key><Size>-10000</Size>"+
				"<LastModified>2020-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"), ""},
		"huge": {answerOf("Connection: close",
			"<ListBucketResult><Contents><Key>a</Key><Size>9223372036854775807</Size>"+
				"<LastModified>2020-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"), ""},
	},
}

// limit is the memory limit of the process in these tests, in bytes.
const limit = 64 << 20

var everyPeer = flag.Bool("every-peer", false, "send large messages to each client of a connector, not only to one")

// large lists the kinds of hostile data that take long. All clients of a connector read them with the same code.
var large = []string{"large message", "many headers", "tiny elements", "tiny values"}

// reader returns the peer of a connector that sends the large kinds.
func reader(connector string) string {
	return cmp.Or(map[string]string{"nats": "nats core", "redis": "redis list"}[connector], connector)
}

// TestHostilePeers connects every client to servers that announce too much, nest without end, truncate messages and
// lie. The client ends the connection with an error and allocates no more than the limit of a message.
func TestHostilePeers(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	for name, p := range peers {
		for kind, h := range hostile[p.connector] {
			if slices.Contains(large, kind) && name != reader(p.connector) && !*everyPeer {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				why := h.why
				if p.handshake == nil || name == "postgres login" {
					why = "" // the data has another meaning there
				}
				o := meet(t, p, h.send, why)
				if o.err == nil {
					t.Error("no error")
				}
				if most := uint64(2 * limit); o.allocated > most {
					t.Errorf("%d bytes were allocated, more than %d", o.allocated, most)
				}
				if o.sent > 2*limit { // the buffers of the kernel may have tens of megabytes
					t.Errorf("it took %d bytes", o.sent)
				}
			})
		}
	}
}

// fuzzPeer sends the fuzzer's input after the handshake.
func fuzzPeer(f *testing.F, names ...string) {
	seen := map[string]bool{}
	for _, name := range names {
		connector := peers[name].connector
		if seen[connector] {
			continue
		}
		seen[connector] = true
		for _, h := range hostile[connector] {
			var b bytes.Buffer
			if _ = h.send(&shortly{&b, 4 << 10}); b.Len() < 1<<10 {
				f.Add(byte(0), b.Bytes())
			}
		}
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
		o := meet(t, peers[names[int(which)%len(names)]], text(string(data)), "")
		if most := uint64(2*limit + 100*len(data)); o.allocated > most {
			t.Errorf("%d bytes were allocated, more than %d", o.allocated, most)
		}
	})
}

// shortly is a writer that accepts a limited number of bytes.
type shortly struct {
	io.Writer
	left int
}

func (s *shortly) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		return 0, errors.New("that is enough")
	}
	return s.Writer.Write(p)
}

func FuzzPeerRedis(f *testing.F) {
	fuzzPeer(f, "redis list", "redis stream", "redis channel", "redis write")
}
func FuzzPeerMySQL(f *testing.F)    { fuzzPeer(f, "mysql", "mysql write", "mysql login") }
func FuzzPeerNATS(f *testing.F)     { fuzzPeer(f, "nats core", "nats stream", "nats greeting") }
func FuzzPeerPostgres(f *testing.F) { fuzzPeer(f, "postgres", "postgres login") }
func FuzzPeerMQTT(f *testing.F)     { fuzzPeer(f, "mqtt") }
func FuzzPeerKafka(f *testing.F)    { fuzzPeer(f, "kafka") }
func FuzzPeerHTTP(f *testing.F)     { fuzzPeer(f, "http") }
func FuzzPeerS3(f *testing.F)       { fuzzPeer(f, "s3") }
