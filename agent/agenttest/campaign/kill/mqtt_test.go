package kill_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// writesAtOnce configures mosquitto to write its file after each change, as far as its options allow.
const writesAtOnce = "autosave_on_changes true\nautosave_interval 1"

// mosquitto is a server that acknowledges a message before it writes the message to its file.
type mosquitto struct {
	*server.Mosquitto
	t        testing.TB
	password string // path of the file
	n        int    // passwords so far
}

// startMosquitto starts a server with additional lines of configuration.
func startMosquitto(t testing.TB, dir, more string) *mosquitto {
	t.Helper()
	m := &mosquitto{t: t, password: filepath.Join(dir, "password"), Mosquitto: server.StartMosquitto(t, "word", more)}
	if err := os.WriteFile(m.password, []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// replacePassword sets the password that the server uses after its next start.
func (m *mosquitto) replacePassword() error {
	m.n++
	word := fmt.Sprintf("word-%d", m.n)
	m.SetPassword(m.t, word)
	if err := os.WriteFile(m.password+".new", []byte(word), 0o600); err != nil {
		return err
	}
	return os.Rename(m.password+".new", m.password)
}

// rotate replaces the password, and ends all connections.
func (m *mosquitto) rotate(ctx context.Context) error {
	if err := m.replacePassword(); err != nil {
		return err
	}
	m.Stop()
	return m.Start(ctx)
}

// connect connects the bare client with an id that has a session.
func (m *mosquitto) connect(ctx context.Context, id string) (*paho.Client, error) {
	return m.connectWith(ctx, id, paho.ClientConfig{})
}

func (m *mosquitto) connectWith(ctx context.Context, id string, config paho.ClientConfig) (*paho.Client, error) {
	conn, err := net.Dial("tcp", m.Addr)
	if err != nil {
		return nil, err
	}
	word, err := os.ReadFile(m.password)
	if err != nil {
		return nil, err
	}
	config.Conn = conn
	c, day := paho.NewClient(config), uint32(86400)
	_, err = c.Connect(ctx, &paho.Connect{ClientID: id, KeepAlive: 30, UsernameFlag: true, Username: "conduit",
		PasswordFlag: true, Password: word,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &day}})
	return c, err
}

func (m *mosquitto) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": "mqtt://" + addr, "auth.username": "conduit",
			"auth.password": "${file:" + m.password + "}", "timeout": "2s", "keepAlive": "2s"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
}

// subscribe creates the session of a client, so that the client misses nothing before it connects.
func (m *mosquitto) subscribe(id, topic string) {
	m.t.Helper()
	c, err := m.connect(m.t.Context(), id)
	if err == nil {
		_, err = c.Subscribe(m.t.Context(),
			&paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}})
	}
	if err != nil {
		m.t.Fatal(err)
	}
	_ = c.Disconnect(&paho.Disconnect{})
	if err := m.Save(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// publish returns when the server has acknowledged all messages.
func (m *mosquitto) publish(ctx context.Context, topic string, payloads ...string) error {
	c, err := m.connect(ctx, "producer")
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(&paho.Disconnect{}) }()
	for _, p := range payloads {
		if _, err := c.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(p)}); err != nil {
			return err
		}
	}
	return nil
}

// TestMQTTSource receives messages that were published and that the server has written. Replaced credentials restart
// the pipeline: messages that it had acknowledged over the cut connection arrive again.
func TestMQTTSource(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:mqtt", Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			m := startMosquitto(t, dir, writesAtOnce)
			m.subscribe("kill", "ledger/+")
			return &kill.System{
				Addr: m.Addr, Server: m, Rotate: m.rotate,
				Settings: m.settings(map[string]string{"topics": "ledger/+", "clientID": "kill"}),
				Produce: func(ctx context.Context, first, n int) error {
					var payloads []string
					for i := range n {
						payloads = append(payloads, fmt.Sprintf(`{"n":%d}`, first+i))
					}
					if err := m.publish(ctx, "ledger/x", payloads...); err != nil {
						return err
					}
					return m.Save(ctx) // a kill loses acknowledged messages that the server has not written
				},
			}
		},
	})
}

// TestMQTTDestination publishes messages. Messages that the server acknowledges reach the connected subscribers,
// because it sends them before it acknowledges them. Messages that it keeps for other subscribers and has not written
// are lost when it is killed.
func TestMQTTDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:mqtt", Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			a := attend(t, startMosquitto(t, dir, ""))
			return &kill.System{
				Addr: a.proxy.Addr(), Server: a, Rotate: a.rotate, Stored: a.c.stored,
				Settings: a.settings(map[string]string{"topic": "out", "retry.timeout": "1s",
					"sdk.record.format": "template", "sdk.record.format.options": "{{ toJson .Payload.After }}"}),
			}
		},
	})
}

// attended is a server reachable only through its proxy, which refuses connections unless the collector is connected.
// The server then never has to keep messages.
type attended struct {
	*mosquitto
	proxy *network.Proxy
	c     *collector
}

func attend(t *testing.T, m *mosquitto) attended {
	a := attended{m, network.NewProxy(t, m.Addr), &collector{m: m}}
	done := make(chan struct{})
	go func() { defer close(done); a.c.run(t.Context()) }()
	t.Cleanup(func() { <-done })
	if err := a.open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return a
}

// open makes the proxy accept connections once the collector has connected again.
func (a attended) open(ctx context.Context, before int) error {
	if !wait.Until(ctx, func() bool { return a.c.connections() > before }) {
		return fmt.Errorf("the collector does not connect: %w", ctx.Err())
	}
	a.proxy.Heal()
	return nil
}

func (a attended) Start(ctx context.Context) error {
	before := a.c.connections()
	if err := a.mosquitto.Start(ctx); err != nil {
		return err
	}
	return a.open(ctx, before)
}

func (a attended) Stop() { a.end(a.mosquitto.Stop) }
func (a attended) Kill() { a.end(a.mosquitto.Kill) }

// end makes the proxy refuse connections and ends the server, once the collector has all messages published before:
// messages that exceed the buffers of its connection wait in the server.
func (a attended) end(end func()) {
	ctx, before := a.t.Context(), a.c.others()
	if !wait.Until(ctx, func() bool { return a.publish(ctx, "out", `{"n":0}`) == nil }) ||
		!wait.Until(ctx, func() bool { return a.c.others() > before }) {
		a.t.Error("a message does not reach the collector")
	}
	end()
	a.proxy.Refuse(true)
	a.proxy.Cut()
}

func (a attended) rotate(ctx context.Context) error {
	a.Stop() // with the current password of the server
	if err := a.replacePassword(); err != nil {
		return err
	}
	return a.Start(ctx)
}

// collector is a subscriber that keeps the numbers of the records it received. Unlike a client that relies on the
// server to send messages again, it drops no received message when its connection is lost.
type collector struct {
	m *mosquitto

	mu        sync.Mutex
	all       []int // guarded by mu
	other     int   // messages that are not records
	connected int   // connections with a subscription so far
	err       error // error of an unreadable message
}

func (c *collector) others() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other
}

func (c *collector) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected
}

func (c *collector) stored(context.Context) ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int(nil), c.all...), c.err
}

// run receives until the test ends. It reads the password again after a rotation.
func (c *collector) run(ctx context.Context) {
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", c.m.Addr); err == nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			c.receive(conn)
			stop()
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// receive returns when nothing more can be read: messages may still arrive after writing fails.
func (c *collector) receive(conn net.Conn) {
	word, _ := os.ReadFile(c.m.password)
	connect := packets.Connect{ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: "collector", CleanStart: true,
		UsernameFlag: true, Username: "conduit", PasswordFlag: true, Password: word, Properties: &packets.Properties{}}
	_, _ = connect.WriteTo(conn)
	in := bufio.NewReader(conn)
	for {
		packet, err := packets.ReadPacket(in)
		if err != nil {
			return
		}
		if answer := c.answer(packet.Content); answer != nil {
			_, _ = answer.WriteTo(conn)
		}
	}
}

// answer keeps the content of a packet, and returns the reply; nil: none.
func (c *collector) answer(p packets.Packet) packets.Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p := p.(type) {
	case *packets.Connack:
		return &packets.Subscribe{PacketID: 1, Properties: &packets.Properties{},
			Subscriptions: []packets.SubOptions{{Topic: "out", QoS: 1}}}
	case *packets.Suback:
		c.connected++
	case *packets.Publish:
		c.keep(p.Payload)
		return &packets.Puback{PacketID: p.PacketID, Properties: &packets.Properties{}}
	}
	return nil
}

// keep is called with mu held.
func (c *collector) keep(payload []byte) {
	var record struct{ N int }
	switch err := json.Unmarshal(payload, &record); {
	case err != nil:
		c.err = err
	case record.N == 0:
		c.other++
	default:
		c.all = append(c.all, record.N)
	}
}
