// Package rabbitmq_test runs the connector rabbitmq with a real node.
package rabbitmq_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/rabbitmq"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// system is a node with the bare client.
type system struct {
	*server.RabbitMQ
	ch *client.Channel
}

func start(t testing.TB, queues ...string) *system {
	t.Helper()
	s := &system{RabbitMQ: server.StartRabbitMQ(t, "word", queues)}
	c, err := client.Dial("amqp://test:test@" + s.Addr)
	if err == nil {
		s.ch, err = c.Channel()
	}
	if err == nil {
		err = s.ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s
}

// publish returns when the node has confirmed the messages.
func (s *system) publish(t testing.TB, queue string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		one, err := s.ch.PublishWithDeferredConfirm("", queue, true, false, client.Publishing{Body: []byte(p),
			DeliveryMode: client.Persistent, CorrelationId: "c", Headers: client.Table{"tenant": "acme",
				"list": []any{int32(1), "b"}}})
		if err != nil || !one.Wait() {
			t.Fatalf("cannot publish %q: %v", p, err)
		}
	}
}

// left returns the messages that a queue has, and removes them.
func (s *system) left(t testing.TB, queue string) (all []client.Delivery) {
	t.Helper()
	for {
		m, ok, err := s.ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, m)
	}
}

func (s *system) settings(more ...string) map[string]string {
	all := map[string]string{"url": s.URL(), "auth.username": "conduit", "auth.password": "word", "timeout": "5s",
		"heartbeat": "2s"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func source(t testing.TB, set map[string]string, pos record.Position) *rabbitmq.Source {
	t.Helper()
	return plugintest.OpenSource(t, &rabbitmq.Source{}, set, pos)
}

func read(t testing.TB, s sdk.Source, n int) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(all) < n {
		records, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", text(all), err)
		}
		all = append(all, records...)
	}
	return all
}

func text(records []record.Record) string {
	var all []string
	for i := range records {
		raw, _ := records[i].After.Raw()
		all = append(all, string(raw))
	}
	return strings.Join(all, " ")
}

func ack(t testing.TB, s sdk.Source, n int) {
	t.Helper()
	if err := s.Ack(t.Context(), make([]record.Position, n)); err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, got []record.Record, want string) {
	t.Helper()
	if text(got) != want {
		t.Errorf("got %s, want %s", text(got), want)
	}
}

// TestQueue reads messages in order, and unacknowledged messages again.
func TestQueue(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "classic", "quorum:quorum")
	for _, queue := range []string{"classic", "quorum"} {
		s.publish(t, queue, "1", "2", "3", "4")
		src := source(t, s.settings("queue", queue), nil)
		records := read(t, src, 4)
		want(t, records, "1 2 3 4")
		md := records[0].Metadata
		if md.Get(record.KeyCollection) != queue || md.Get("rabbitmq.routingKey") != queue ||
			md.Get("rabbitmq.header.tenant") != "acme" || md.Get("rabbitmq.header.list") != `[1,"b"]` ||
			md.Get("rabbitmq.correlationID") != "c" || md.Get("rabbitmq.redelivered") != "" {
			t.Errorf("metadata is %v", md)
		}
		ack(t, src, 2)
		if err := src.Teardown(t.Context()); err != nil {
			t.Fatal(err)
		}
		src = source(t, s.settings("queue", queue), records[1].Position)
		records = read(t, src, 2)
		want(t, records, "3 4")
		if records[0].Metadata.Get("rabbitmq.redelivered") != "true" {
			t.Errorf("metadata is %v", records[0].Metadata)
		}
		ack(t, src, 2)
		if err := src.Teardown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := s.left(t, queue); len(left) > 0 {
			t.Errorf("%s has %d messages", queue, len(left))
		}
	}
}

// TestStream resumes after the position, and recognizes a recreated stream.
func TestStream(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "stream:stream")
	set := func(more ...string) map[string]string {
		return s.settings(append([]string{"queue", "stream"}, more...)...)
	}
	s.publish(t, "stream", "1", "2", "3")
	src := source(t, set(), nil)
	records := read(t, src, 3)
	want(t, records, "1 2 3")
	if records[2].Metadata.Get("rabbitmq.offset") != "2" {
		t.Errorf("metadata is %v", records[2].Metadata)
	}
	_ = src.Teardown(t.Context())
	s.publish(t, "stream", "4")
	src = source(t, set(), records[1].Position)
	want(t, read(t, src, 2), "3 4")
	_ = src.Teardown(t.Context())
	if _, err := s.ch.QueueDelete("stream", false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ch.QueueDeclare("stream", true, false, false, false,
		client.Table{"x-queue-type": "stream"}); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "stream", "a", "b", "c")
	src = source(t, set(), records[1].Position)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := src.Read(ctx); err == nil || !strings.Contains(err.Error(), "was recreated") {
		t.Errorf("got %v", err)
	}
	_ = src.Teardown(t.Context())
	src = source(t, set("gap", "continue"), records[1].Position)
	want(t, read(t, src, 3), "a b c")
}

// TestReconnects loses nothing, and keeps the order, when connections are lost. From a stream nothing comes twice.
func TestReconnects(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "stream:stream", "quorum:quorum")
	for _, queue := range []string{"stream", "quorum"} {
		proxy := network.NewProxy(t, s.Addr)
		src := source(t, s.settings("url", "amqp://"+proxy.Addr(), "queue", queue), nil)
		var all []string
		for i := range 4 {
			s.publish(t, queue, fmt.Sprint(2*i), fmt.Sprint(2*i+1))
			records := read(t, src, 1)
			for len(records) == 1 && queue == "stream" {
				records = append(records, read(t, src, 1)...)
			}
			all = append(all, strings.Fields(text(records))...)
			proxy.Cut()
		}
		s.publish(t, queue, "8")
		for all[len(all)-1] != "8" {
			records := read(t, src, 1)
			all = append(all, strings.Fields(text(records))...)
			ack(t, src, len(records))
		}
		next := 0
		for i, one := range all { // each number first comes in order
			var n int
			if _, err := fmt.Sscan(one, &n); err != nil || n > next || queue == "stream" && n != i {
				t.Fatalf("%s: %v", queue, all)
			}
			next = max(next, n+1)
		}
		_ = src.Teardown(t.Context())
	}
}

func records(payloads ...string) (all []record.Record) {
	for i, p := range payloads {
		r := record.Record{Position: record.Position(fmt.Sprint(i)), Operation: record.OperationCreate,
			After: record.Raw([]byte(p))}
		r.Metadata.Set("rabbitmq.header.tenant", "acme")
		r.Metadata.Set("key", p)
		all = append(all, r)
	}
	return all
}

// TestDestination publishes, refuses an unroutable record without a loss or a repetition of the others, and refuses a
// record whose exchange does not exist.
func TestDestination(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "a", "b")
	d, ctx := plugintest.OpenDestination(t, rabbitmq.Connector(), "p:a", s.settings("routingKey",
		"{{ .Metadata.key }}", "headers", "true"))
	all := records("a", "b", "none", "a", "b")
	n, err := d.Write(ctx, all)
	if n != 2 || err == nil || !strings.Contains(err.Error(), "there is no queue \"none\"") {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(ctx, all[3:]); n != 2 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	for _, queue := range []string{"a", "b"} {
		left := s.left(t, queue)
		if len(left) != 2 || left[0].MessageId == left[1].MessageId || left[0].DeliveryMode != client.Persistent ||
			left[0].Headers["tenant"] != "acme" {
			t.Errorf("%s has %v", queue, left)
		}
	}
	d, ctx = plugintest.OpenDestination(t, rabbitmq.Connector(), "p:b", s.settings("routingKey", "a", "exchange",
		"{{ if eq .Metadata.key \"x\" }}missing{{ end }}"))
	all = records("1", "2", "x", "3")
	n, err = d.Write(ctx, all)
	if n != 2 || err == nil || !strings.Contains(err.Error(), "exchange \"missing\" does not exist") ||
		errors.As(err, new(interface{ Lost() bool })) {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestErrors checks that errors of settings and servers have a remedy.
func TestErrors(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "q")
	for wanted, set := range map[string]map[string]string{
		"check auth.username and auth.password": s.settings("queue", "q", "auth.password", "wrong"),
		"check vhost":                           s.settings("queue", "q", "vhost", "empty"),
		"create the queue":                      s.settings("queue", "missing"),
		"other arguments":                       s.settings("queue", "q", "declare", "stream"),
		"does not speak TLS": s.settings("queue", "q", "url", "amqps://"+s.Addr,
			"tls.insecureSkipVerify", "true"),
	} {
		src := source(t, set, nil)
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		if strings.Contains(wanted, "TLS") { // the server may be restarted with TLS
			wait.For(t, wanted, func() bool { return strings.Contains(src.Progress().Warning, wanted) })
		} else if _, err := src.Read(ctx); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %s", err, wanted)
		}
		cancel()
		_ = src.Teardown(t.Context())
	}
}

// TestBlocked waits while the node is out of memory, for longer than its timeouts.
func TestBlocked(t *testing.T) {
	load.Parallel(t, load.Server)
	s := &system{RabbitMQ: server.StartRabbitMQ(t, "word", []string{"q"}, "vm_memory_high_watermark.absolute = 1")}
	var d rabbitmq.Destination
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := make(chan struct{})
	ctx = sdk.WithEnv(ctx, &sdk.Env{ConnectorID: "p:d", Logger: slog.New(slog.NewTextHandler(writes(func(p []byte) {
		if strings.Contains(string(p), "does not accept messages for now") {
			close(waits)
		}
	}), nil))})
	set := d.Parameters().ApplyDefaults(s.settings("routingKey", "q", "retry.timeout", "0s"))
	if err := errors.Join(d.Configure(ctx, set), d.Open(ctx)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Teardown(context.WithoutCancel(ctx)) }()
	go func() {
		<-waits
		cancel()
	}()
	if n, err := d.Write(ctx, records("1")); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// writes is a writer that calls a function.
type writes func([]byte)

// Write implements io.Writer.
func (w writes) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// TestContract runs the checks of the contract, with streams for the source, as only they have positions.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	s, n := start(t), 0
	queue := func(t testing.TB, kind string) string {
		n++
		name := fmt.Sprint("contract", n)
		if _, err := s.ch.QueueDeclare(name, true, false, false, false, client.Table{"x-queue-type": kind}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	taken := map[string][]string{} // payloads of messages that were removed from a queue
	plugintest.Run(t, plugintest.Target{Connector: rabbitmq.Connector(), Timeout: 10 * time.Second,
		Source: func(t testing.TB, n int) map[string]string {
			name := queue(t, "stream")
			for i := range n {
				s.publish(t, name, fmt.Sprint(i))
			}
			return s.settings("queue", name)
		},
		Destination: func(t testing.TB) map[string]string {
			return s.settings("routingKey", queue(t, "quorum"), "sdk.record.format", "template",
				"sdk.record.format.options", `{{ with .Payload.After }}{{ printf "%s" . }}{{ end }}`)
		},
		Written: func(t testing.TB, set map[string]string) []string {
			name := set["routingKey"]
			for _, m := range s.left(t, name) {
				taken[name] = append(taken[name], string(m.Body))
			}
			return taken[name]
		}})
}

// TestRecreated fails when the queue of a position is of another kind now, or the stream ends before the position.
func TestRecreated(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "a:stream", "b:quorum")
	s.publish(t, "a", "1", "2", "3")
	s.publish(t, "b", "1")
	var at []record.Position
	for _, queue := range []string{"a", "b"} {
		src := source(t, s.settings("queue", queue), nil)
		records := read(t, src, 1)
		at = append(at, records[len(records)-1].Position)
		_ = src.Teardown(t.Context())
		if _, err := s.ch.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	for i, one := range []struct{ queue, kind, wanted string }{
		{"a", "quorum", `"a" was a stream when it was read, and is a queue now`},
		{"b", "stream", `"b" was a queue when it was read, and is a stream now`},
	} {
		if _, err := s.ch.QueueDeclare(one.queue, true, false, false, false,
			client.Table{"x-queue-type": one.kind}); err != nil {
			t.Fatal(err)
		}
		s.publish(t, one.queue, "x")
		fails(t, s.settings("queue", one.queue), at[i], one.wanted)
	}
	if _, err := s.ch.QueueDelete("a", false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ch.QueueDeclare("a", true, false, false, false,
		client.Table{"x-queue-type": "stream"}); err != nil {
		t.Fatal(err)
	}
	s.publish(t, "a", "x") // the server does not send it: it is before the offset of the position
	fails(t, s.settings("queue", "a", "timeout", "1s"), at[0], `stream "a" was recreated, or lost messages: its oldest `+
		`message has offset 0`)
}

// fails checks the error of a source.
func fails(t testing.TB, set map[string]string, pos record.Position, wanted string) {
	t.Helper()
	src := source(t, set, pos)
	defer func() { _ = src.Teardown(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if records, err := src.Read(ctx); err == nil || !strings.Contains(err.Error(), wanted) {
		t.Errorf("read %q: got %v, want %s", text(records), err, wanted)
	}
}

// TestOffset begins at an offset and at a time.
func TestOffset(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "stream:stream")
	s.publish(t, "stream", "1", "2", "3")
	for offset, wanted := range map[string]string{"first": "1", "2": "3", "2026-01-02T03:04:05Z": "1"} {
		src := source(t, s.settings("queue", "stream", "offset", offset), nil)
		if records := read(t, src, 1); text(records[:1]) != wanted {
			t.Errorf("offset %s begins with %q", offset, text(records))
		}
		_ = src.Teardown(t.Context())
	}
}

// TestDeclare declares queues on both sides, and binds one.
func TestDeclare(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t)
	if err := s.ch.ExchangeDeclare("orders", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"classic", "quorum", "stream"} {
		src := source(t, s.settings("queue", kind, "declare", kind, "bindings", "orders:"+kind+".#"), nil)
		wait.For(t, "it is connected", func() bool { return !src.Progress().At.IsZero() })
		d, ctx := plugintest.OpenDestination(t, rabbitmq.Connector(), "p:"+kind, s.settings("exchange", "orders",
			"routingKey", kind+".a"))
		if n, err := d.Write(ctx, records("1", "2")); n != 2 || err != nil {
			t.Errorf("%s: wrote %d: %v", kind, n, err)
		}
		all := read(t, src, 2)
		if all[0].Metadata.Get("rabbitmq.exchange") != "orders" ||
			all[0].Metadata.Get("rabbitmq.routingKey") != kind+".a" {
			t.Errorf("metadata is %v", all[0].Metadata)
		}
		ack(t, src, 2)
		_ = src.Teardown(t.Context())
		d, ctx = plugintest.OpenDestination(t, rabbitmq.Connector(), "p:d"+kind, s.settings("declare", kind,
			"routingKey", "to-"+kind))
		if n, err := d.Write(ctx, records("1")); n != 1 || err != nil {
			t.Errorf("%s: wrote %d: %v", kind, n, err)
		}
	}
	d, ctx := plugintest.OpenDestination(t, rabbitmq.Connector(), "p:e", s.settings("declare", "classic", "routingKey",
		"to-stream"))
	if n, err := d.Write(ctx, records("1")); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "it exists with other arguments") {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestBadItems reads messages that are empty, larger than the buffer, have odd headers or no text, and the messages
// after them.
func TestBadItems(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "q")
	s.publish(t, "q", "one", strings.Repeat("x", 200_000), "", "\xff\x00")
	for _, headers := range []client.Table{
		{"a": nil, "b": int8(1), "c": 1.5, "d": []byte("\xff"), "e": time.Unix(1, 0), "\xff": "x"},
		{"list": []any{client.Table{"a": 1.5}, nil}, "decimal": client.Decimal{Scale: 2, Value: 5},
			"traceparent": int32(1)},
	} {
		one, err := s.ch.PublishWithDeferredConfirm("", "q", true, false, client.Publishing{Headers: headers,
			ContentType: "\xff"})
		if err != nil || !one.Wait() {
			t.Fatal(err)
		}
	}
	s.publish(t, "q", "last")
	all := read(t, source(t, s.settings("queue", "q", "buffer.maxBytes", "1000"), nil), 7)
	want(t, all[6:], "last")
	for _, r := range all {
		if _, err := record.AppendJSON(nil, &r); err != nil {
			t.Error(err)
		}
		if _, err := record.AppendWire(nil, &r); err != nil {
			t.Error(err)
		}
	}
}

// TestTraceContext passes a trace context in headers, in both directions.
func TestTraceContext(t *testing.T) {
	load.Parallel(t, load.Server)
	s := start(t, "q")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	all := records("1")
	all[0].Metadata.SetTraceContext(parent, "a=b")
	d, ctx := plugintest.OpenDestination(t, rabbitmq.Connector(), "p:d", s.settings("routingKey", "q"))
	if n, err := d.Write(ctx, all); n != 1 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	got := read(t, source(t, s.settings("queue", "q"), nil), 1)
	if p, state := got[0].Metadata.TraceContext(); p != parent || state != "a=b" {
		t.Errorf("the trace context is %q, %q", p, state)
	}
}

// TestLarge refuses a message that is larger than the server accepts, and publishes the others in order.
func TestLarge(t *testing.T) {
	load.Parallel(t, load.Server)
	s := &system{RabbitMQ: server.StartRabbitMQ(t, "word", []string{"q"}, "max_message_size = 1000")}
	d, ctx := plugintest.OpenDestination(t, rabbitmq.Connector(), "p:d", s.settings("routingKey", "q",
		"sdk.record.format", "template", "sdk.record.format.options", `{{ printf "%s" .Payload.After }}`))
	all := records("1", "2", strings.Repeat("x", 2000), "3")
	n, err := d.Write(ctx, all)
	if n != 2 || err == nil || !strings.Contains(err.Error(), "the server refused the record") {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(ctx, all[3:]); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	src := source(t, s.settings("queue", "q"), nil)
	var bodies []string
	for len(bodies) == 0 || bodies[len(bodies)-1] != "3" {
		bodies = append(bodies, strings.Fields(text(read(t, src, 1)))...)
	}
	if got := strings.Join(slices.Compact(slices.Sorted(slices.Values(bodies))), " "); got != "1 2 3" {
		t.Errorf("the queue has %v", bodies)
	}
}

// TestTLS logs in over TLS, and trusts only the authorities that the settings name.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	dir, authority, port := server.Dir(t), network.NewAuthority(t), network.FreePort(t)
	// To Erlang, a certificate that has its authority's name is self-signed.
	cert, key := authority.PairWith(t, func(c *x509.Certificate) { c.Subject.CommonName = "client" })
	for name, text := range map[string]string{"cert": cert, "key": key, "ca": authority.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := &system{RabbitMQ: server.StartRabbitMQ(t, "word", []string{"q"}, fmt.Sprintf("listeners.ssl.1 = 127.0.0.1:%d\n"+
		"ssl_options.certfile = %[2]s/cert\nssl_options.keyfile = %[2]s/key\nssl_options.cacertfile = %[2]s/ca\n"+
		"ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true", port, dir))}
	set := s.settings("queue", "q", "url", fmt.Sprintf("amqps://127.0.0.1:%d", port), "tls.ca", authority.PEM)
	without := source(t, set, nil)
	wait.For(t, "the server misses the certificate", func() bool {
		return strings.Contains(without.Progress().Warning, "certificate")
	})
	set["tls.cert"], set["tls.key"] = cert, key
	src := source(t, set, nil)
	wait.For(t, "it is connected", func() bool { return !src.Progress().At.IsZero() })
	other, _, _ := network.Certificate(t)
	set["tls.ca"] = other
	distrusts := source(t, set, nil)
	wait.For(t, "the server is not trusted", func() bool {
		return strings.Contains(distrusts.Progress().Warning, "check that tls.ca has the authority")
	})
}
