package mqtt_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// source is an opened source that has subscribed.
func source(t *testing.T, settings map[string]string, pos record.Position) *mqtt.Source {
	t.Helper()
	return plugintest.OpenSource(t, &mqtt.Source{}, settings, pos)
}

func subscribed(t *testing.T, s *mqtt.Source) {
	t.Helper()
	wait.For(t, "it is subscribed", func() bool { return !s.Progress().At.IsZero() })
}

func text(records []record.Record) string {
	var all []string
	for i := range records {
		raw, _ := records[i].After.Raw()
		all = append(all, string(raw))
	}
	return strings.Join(all, " ")
}

func ack(t *testing.T, s sdk.Source, records []record.Record) {
	t.Helper()
	var positions []record.Position
	for i := range records {
		positions = append(positions, records[i].Position)
	}
	if err := s.Ack(t.Context(), positions); err != nil {
		t.Fatal(err)
	}
}

// publish publishes with the bare client.
func publish(t testing.TB, addr, topic string, payloads ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := paho.NewClient(paho.ClientConfig{Conn: conn})
	connect := &paho.Connect{ClientID: "publisher", CleanStart: true, KeepAlive: 30}
	if _, err := c.Connect(t.Context(), connect); err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		if _, err := c.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(p),
			Properties: &paho.PublishProperties{ContentType: "text/plain",
				User: paho.UserProperties{{Key: "tenant", Value: "acme"},
					{Key: "tenant", Value: "two"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.Disconnect(&paho.Disconnect{})
}

func settings(addr string) map[string]string {
	return map[string]string{"url": "mqtt://" + addr, "clientID": "reader", "topics": "a/+, b", "timeout": "2s"}
}

// TestAcknowledges checks that the server keeps unacknowledged messages, also while the source is stopped, and with a
// client id from the settings as well as from the id of the connector.
func TestAcknowledges(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	for _, id := range []string{"reader", ""} {
		t.Run(fmt.Sprintf("client %q", id), func(t *testing.T) { t.Parallel(); acknowledges(t, id) })
	}
}

func acknowledges(t *testing.T, id string) {
	m := server.StartMosquitto(t, "", "")
	set := settings(m.Addr)
	set["clientID"] = id
	s := source(t, set, nil)
	subscribed(t, s)
	publish(t, m.Addr, "a/x", "1", "2", "3")
	records := plugintest.Read(t, s, 3)
	if got := text(records); got != "1 2 3" {
		t.Fatalf("got %s", got)
	}
	md := records[0].Metadata
	if md.Get(record.KeyCollection) != "a/x" || md.Get("mqtt.qos") != "1" ||
		md.Get("mqtt.contentType") != "text/plain" ||
		md.Get("mqtt.user.tenant") != "acme" || md.Get("mqtt.user.tenant[1]") != "two" {
		t.Errorf("metadata is %v", md)
	}
	ack(t, s, records[:1])
	if err := s.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(t, m.Addr, "b", "4")
	publish(t, m.Addr, "c", "not this one")
	s = source(t, set, records[0].Position)
	if got := text(plugintest.Read(t, s, 3)); got != "2 3 4" {
		t.Errorf("got %s, want what was not acknowledged", got)
	}
}

// TestReconnects repeats nothing and loses nothing when connections are lost, regardless of the acknowledgements by
// then.
func TestReconnects(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "")
	proxy := network.NewProxy(t, m.Addr)
	s := source(t, settings(proxy.Addr()), nil)
	subscribed(t, s)
	var all []record.Record
	acked := 0
	for i := range 8 {
		publish(t, m.Addr, "b", fmt.Sprint(3*i), fmt.Sprint(3*i+1), fmt.Sprint(3*i+2))
		if i%3 > 0 {
			all = append(all, plugintest.Read(t, s, 2+3*i-len(all))...)
			ack(t, s, all[acked:len(all)-1])
			acked = len(all) - 1
		}
		proxy.Cut()
	}
	publish(t, m.Addr, "b", "24")
	all = append(all, plugintest.Read(t, s, 25-len(all))...)
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprint(i))
	}
	if got := text(all); got != strings.Join(want, " ") {
		t.Errorf("got %s", got)
	}
}

// TestSessionLost checks that a source reports missed messages on each start, until session.lost is set to continue.
func TestSessionLost(t *testing.T) {
	load.Parallel(t, load.Server)
	for name, end := range map[string]func(ctx context.Context, set map[string]string) error{ // as if it had expired
		"deleted": (&mqtt.Source{}).LifecycleOnDeleted,
		"another client": func(ctx context.Context, set map[string]string) error {
			other := maps.Clone(set)
			other["clientID"] = "another"
			return (&mqtt.Source{}).LifecycleOnUpdated(ctx, set, other)
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); sessionLost(t, end) })
	}
}

func sessionLost(t *testing.T, end func(ctx context.Context, set map[string]string) error) {
	m := server.StartMosquitto(t, "", "")
	set := settings(m.Addr)
	s := source(t, set, nil)
	subscribed(t, s)
	publish(t, m.Addr, "b", "1")
	records := plugintest.Read(t, s, 1)
	ack(t, s, records)
	if err := s.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := end(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		s := source(t, set, records[0].Position)
		_, err := s.Read(ctx)
		since := time.Now().UTC().Format("2006-01-02T15:")
		if err == nil || !strings.Contains(err.Error(),
			`messages were missed: the server no longer has the session of client "reader"`) ||
			!strings.Contains(err.Error(), since) {
			t.Fatalf("got %v", err)
		}
		_ = s.Teardown(t.Context())
	}
	set["session.lost"] = "continue"
	s = source(t, set, records[0].Position)
	subscribed(t, s)
	publish(t, m.Addr, "b", "2")
	if got := text(plugintest.Read(t, s, 1)); got != "2" {
		t.Errorf("got %s", got)
	}
	if text := fmt.Sprint(s.Progress().Skipped); !strings.Contains(text, "messages were missed") {
		t.Errorf("left out: %s", text)
	}
}

// TestServerKilled loses the session when the server is killed before it saved the session, and reports that.
func TestServerKilled(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "")
	s := source(t, settings(m.Addr), nil)
	subscribed(t, s)
	publish(t, m.Addr, "b", "1")
	ack(t, s, plugintest.Read(t, s, 1))
	publish(t, m.Addr, "b", "2")
	plugintest.Read(t, s, 1) // not acknowledged
	m.Kill()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := s.Read(ctx); err == nil ||
		!strings.Contains(err.Error(), "messages were missed: the server no longer has the session of client") {
		t.Errorf("got %v", err)
	}
}

// TestTopicsChanged checks that topics that are no longer read do not collect messages.
func TestTopicsChanged(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "")
	set := settings(m.Addr)
	s := source(t, set, nil)
	subscribed(t, s)
	_ = s.Teardown(t.Context())
	now := settings(m.Addr)
	now["topics"] = "b"
	if err := (&mqtt.Source{}).LifecycleOnUpdated(t.Context(), set, now); err != nil {
		t.Fatal(err)
	}
	publish(t, m.Addr, "a/x", "1")
	publish(t, m.Addr, "b", "2")
	if got := text(plugintest.Read(t, source(t, now, nil), 1)); got != "2" {
		t.Errorf("got %s, want only what is subscribed", got)
	}
}

// TestRefused checks the error when the server refuses the connection: it must not show the password.
func TestRefused(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "word", "")
	for _, password := range []string{"", "wrong-topsecret"} {
		set := settings(m.Addr)
		set["auth.username"], set["auth.password"] = "conduit", password
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		if _, err := source(t, set, nil).Read(ctx); err == nil ||
			!strings.Contains(err.Error(), "the server refused the connection") ||
			strings.Contains(err.Error(), "topsecret") {
			t.Errorf("got %v", err)
		}
	}
	set := settings(m.Addr)
	set["auth.username"], set["auth.password"] = "conduit", "word"
	subscribed(t, source(t, set, nil))
}

// TestTLS logs in with a certificate, and trusts only the authorities that the settings name.
func TestTLS(t *testing.T) {
	load.Parallel(t, load.Server)
	dir := server.Dir(t)
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	for name, text := range map[string]string{"cert": serverCert, "key": serverKey, "ca": clientCert} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := server.StartMosquitto(t, "",
		fmt.Sprintf("certfile %[1]s/cert\nkeyfile %[1]s/key\ncafile %[1]s/ca\nrequire_certificate true", dir))
	set := settings(m.Addr)
	set["url"], set["tls.ca"] = "mqtts://"+m.Addr, serverCert
	without := source(t, set, nil)
	wait.For(t, "the server misses the certificate", func() bool { return without.Progress().Warning != "" })
	set["tls.cert"], set["tls.key"] = clientCert, clientKey
	s := source(t, set, nil)
	subscribed(t, s)
	d := open(t, map[string]string{"url": "mqtts://" + m.Addr, "topic": "b", "tls.ca": serverCert,
		"tls.cert": clientCert,
		"tls.key":  clientKey})
	one := []record.Record{{
		Position: record.Position("1"), Operation: record.OperationCreate, After: record.Raw([]byte("x")),
	}}
	if n, err := d.Write(t.Context(), one); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	plugintest.Read(t, s, 1)
	other := open(t,
		map[string]string{"url": "mqtts://" + m.Addr, "topic": "b", "tls.ca": clientCert, "retry.timeout": "0s"})
	if _, err := other.Write(t.Context(), one); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

// open returns an opened destination.
func open(t *testing.T, settings map[string]string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(mqtt.Connector()).NewDestination()
	err := d.Configure(t.Context(), settings)
	if err == nil {
		err = d.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

// collector keeps the messages that are published to a topic.
type collector struct {
	mu  sync.Mutex
	got []string // guarded by mu
}

func collect(t *testing.T, addr, topic string) *collector {
	t.Helper()
	c := &collector{}
	s := source(t, map[string]string{"url": "mqtt://" + addr, "clientID": "collector", "topics": topic}, nil)
	subscribed(t, s)
	go func() {
		for {
			records, err := s.Read(t.Context())
			if err != nil {
				return
			}
			c.mu.Lock()
			for i := range records {
				c.got = append(c.got, records[i].Metadata.Get(record.KeyCollection)+"="+text(records[i:i+1]))
			}
			c.mu.Unlock()
		}
	}()
	return c
}

func (c *collector) has(t *testing.T, want ...string) {
	t.Helper()
	got := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return strings.Join(c.got, " ")
	}
	all := strings.Join(want, " ")
	wait.For(t, all, func() bool { return got() == all }, got)
}

// TestPublish publishes with every QoS, and refuses records without a topic.
func TestPublish(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "max_packet_size 1000")
	c := collect(t, m.Addr, "out/#")
	set := map[string]string{"url": "mqtt://" + m.Addr, "topic": `out/{{ index .Metadata "to" }}`,
		"sdk.record.format": "template", "sdk.record.format.options": `{{ printf "%s" .Payload.After }}`}
	d := open(t, set)
	rec := func(to, payload string) record.Record {
		return record.Record{Position: record.Position(payload[:1]), Operation: record.OperationCreate,
			Metadata: record.NewMetadata(map[string]string{"to": to}), After: record.Raw([]byte(payload))}
	}
	four := []record.Record{rec("a", "1"), rec("b", "2"), rec("#", "3"), rec("b", "4")}
	if n, err := d.Write(t.Context(), four); n != 2 || err == nil ||
		!strings.Contains(err.Error(), `cannot publish to "out/#"`) {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(t.Context(), []record.Record{rec("a", strings.Repeat("x", 2000))}); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "more than the 1000") {
		t.Errorf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(t.Context(), []record.Record{rec("b", "4")}); n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	want := []string{"out/a=1", "out/b=2", "out/b=4"}
	for _, qos := range []string{"0", "2"} {
		set["qos"] = qos
		if n, err := open(t, set).Write(t.Context(), []record.Record{rec("c", qos)}); n != 1 || err != nil {
			t.Errorf("QoS %s: wrote %d: %v", qos, n, err)
		}
		want = append(want, "out/c="+qos)
		c.has(t, want...)
	}
	m.Stop()
	gone := &mqtt.Destination{}
	if err := gone.Configure(t.Context(),
		map[string]string{"url": "mqtt://" + m.Addr, "topic": "x", "retry.timeout": "200ms"}); err != nil {
		t.Fatal(err)
	}
	_ = gone.Open(t.Context())
	n, err := gone.Write(t.Context(), []record.Record{rec("a", "5")})
	if lost, ok := err.(interface{ Lost() bool }); n != 0 || !ok || !lost.Lost() {
		t.Errorf("wrote %d: %v, want no record's fault", n, err)
	}
}

// TestContract runs the conformance tests of destinations.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "")
	n := 0
	plugintest.Run(t, plugintest.Target{Connector: mqtt.Connector(), Destination: func(testing.TB) map[string]string {
		n++
		return map[string]string{"url": "mqtt://" + m.Addr, "topic": fmt.Sprintf("contract/%d", n)}
	}})
}

// TestBadItems reads messages of any bytes and sizes, and the messages after them.
func TestBadItems(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "")
	s := source(t, settings(m.Addr), nil)
	subscribed(t, s)
	publish(t, m.Addr, "a/\u2028\u00e9", "\xff\x00", "", strings.Repeat("x", 3<<20), `{"a":`)
	publish(t, m.Addr, "b", "last")
	records := plugintest.Read(t, s, 5)
	for i := range records {
		if _, err := record.AppendJSON(nil, &records[i]); err != nil {
			t.Error(err)
		}
		if _, err := record.AppendWire(nil, &records[i]); err != nil {
			t.Error(err)
		}
	}
	if got := text(records[4:]); got != "last" {
		t.Errorf("the last message is %q", got)
	}
}

// TestTooManyProperties publishes messages with too many properties among others. The others come, in order, and the
// server does not send the bad ones again.
func TestTooManyProperties(t *testing.T) {
	load.Parallel(t, load.Server)
	m := server.StartMosquitto(t, "", "")
	set := settings(m.Addr)
	s := source(t, set, nil)
	subscribed(t, s)
	conn, err := net.Dial("tcp", m.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := c.Connect(t.Context(), &paho.Connect{ClientID: "p", CleanStart: true, KeepAlive: 30}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Disconnect(&paho.Disconnect{}) }()
	properties := &paho.PublishProperties{User: make(paho.UserProperties, 400_000)} // of 5 bytes each
	send := func(payload string, p *paho.PublishProperties, qos byte) {
		t.Helper()
		m := &paho.Publish{Topic: "b", QoS: qos, Payload: []byte(payload), Properties: p}
		if _, err := c.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	send("bad", properties, 1)
	send("1", nil, 1)
	for qos := range byte(2) {
		send("bad", properties, qos)
	}
	send("2", nil, 1)
	records := plugintest.Read(t, s, 2)
	if got := text(records); got != "1 2" {
		t.Errorf("got %s", got)
	}
	if text := fmt.Sprint(s.Progress().Skipped); !strings.Contains(text, "message with topic b") {
		t.Errorf("left out: %s", text)
	}
	ack(t, s, records)
	if err := s.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	send("3", nil, 1)
	s = source(t, set, records[1].Position)
	if got := text(plugintest.Read(t, s, 1)); got != "3" {
		t.Errorf("got %s", got)
	}
	if left := s.Progress().Skipped; len(left) > 0 {
		t.Errorf("the server sends %v again", left)
	}
}
