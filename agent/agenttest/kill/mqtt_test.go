package kill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/conduit-agent/conduit/agent/agenttest/kill"
	"github.com/conduit-agent/conduit/plugins/builtin/mqtt"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// writesAtOnce has mosquitto write its file after each change, as far as its configuration can have it do so.
const writesAtOnce = "autosave_on_changes true\nautosave_interval 1"

// mosquitto is a server that acknowledges a message before it writes the message to its file.
type mosquitto struct {
	*server.Mosquitto
	t        testing.TB
	password string // path of the file
	n        int    // passwords so far
}

// startMosquitto starts a server with further lines of configuration.
func startMosquitto(t testing.TB, dir, more string) *mosquitto {
	t.Helper()
	m := &mosquitto{t: t, password: filepath.Join(dir, "password"), Mosquitto: server.StartMosquitto(t, "word", more)}
	if err := os.WriteFile(m.password, []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// rotate replaces the password, and ends all connections.
func (m *mosquitto) rotate(ctx context.Context) error {
	m.n++
	word := fmt.Sprintf("word-%d", m.n)
	m.SetPassword(m.t, word)
	if err := os.WriteFile(m.password+".new", []byte(word), 0o600); err != nil {
		return err
	}
	if err := os.Rename(m.password+".new", m.password); err != nil {
		return err
	}
	m.Stop()
	return m.Start(ctx)
}

// connect connects with the bare client, under an id that has a session.
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
	_, err = c.Connect(ctx, &paho.Connect{ClientID: id, KeepAlive: 30, UsernameFlag: true, Username: "conduit", PasswordFlag: true, Password: word,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &day}})
	return c, err
}

func (m *mosquitto) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": "mqtt://" + addr, "auth.username": "conduit", "auth.password": "${file:" + m.password + "}", "timeout": "2s"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
}

// subscribe makes the session of a client, so that nothing is missed before it comes.
func (m *mosquitto) subscribe(id, topic string) {
	m.t.Helper()
	c, err := m.connect(m.t.Context(), id)
	if err == nil {
		_, err = c.Subscribe(m.t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}})
	}
	if err != nil {
		m.t.Fatal(err)
	}
	_ = c.Disconnect(&paho.Disconnect{})
	if err := m.Save(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// publish returns when the server has acknowledged all.
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

// TestMQTTSource receives what is published and written by the server. Credentials that are replaced make the pipeline
// start again: what it had acknowledged over the connection that was cut comes again.
func TestMQTTSource(t *testing.T) {
	t.Parallel()
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
					return m.Save(ctx) // a kill loses what the server acknowledged and has not written
				},
			}
		},
	})
}

// TestMQTTDestination publishes: what is acknowledged reaches a subscriber that is connected, which has it before the
// server acknowledges it. What the server keeps for one that is away, and has not written, is lost when it is killed.
func TestMQTTDestination(t *testing.T) {
	t.Parallel()
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:mqtt", Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			m := startMosquitto(t, dir, writesAtOnce)
			m.subscribe("collector", "out")
			c := &collector{m: m}
			done := make(chan struct{})
			go func() { defer close(done); c.run(t.Context()) }()
			t.Cleanup(func() { <-done })
			return &kill.System{
				Addr: m.Addr, Server: attended{m, c}, Rotate: m.rotate, Stored: c.stored,
				Settings: m.settings(map[string]string{"topic": "out", "retry.timeout": "1s", "sdk.record.format": "template", "sdk.record.format.options": "{{ toJson .Payload.After }}"}),
			}
		},
	})
}

// attended is a server that is killed only while the collector is connected.
type attended struct {
	*mosquitto
	c *collector
}

// Kill publishes a message that is no record, and kills the server when the collector has it.
func (a attended) Kill() {
	c, before := a.c, a.c.count()
	if !wait.Until(a.t.Context(), func() bool { return a.publish(a.t.Context(), "out", `{"n":0}`) == nil }) {
		a.t.Error("nothing can be published before the server is killed")
	}
	wait.Until(a.t.Context(), func() bool { return c.count() > before })
	a.mosquitto.Kill()
}

// collector is a subscriber that keeps numbers.
type collector struct {
	m     *mosquitto
	mu    sync.Mutex
	all   []int // guarded by mu
	other int   // guarded by mu: messages that are no records
	err   error // guarded by mu
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other
}

func (c *collector) stored(context.Context) ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int(nil), c.all...), c.err
}

// run subscribes until the test ends. A password that was replaced is read again.
func (c *collector) run(ctx context.Context) {
	for ctx.Err() == nil {
		word, _ := os.ReadFile(c.m.password)
		s := &mqtt.Source{}
		err := s.Configure(ctx, map[string]string{"url": "mqtt://" + c.m.Addr, "clientID": "collector", "topics": "out", "auth.username": "conduit", "auth.password": string(word), "timeout": "2s"})
		if err == nil {
			err = s.Open(ctx, nil)
		}
		for err == nil {
			err = c.read(ctx, s)
		}
		_ = s.Teardown(context.WithoutCancel(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *collector) read(ctx context.Context, s *mqtt.Source) error {
	records, err := s.Read(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range records {
		raw, _ := records[i].After.Raw()
		var payload struct{ N int }
		if err := json.Unmarshal(raw, &payload); err != nil {
			c.err = err
		}
		if payload.N == 0 {
			c.other++
			continue
		}
		c.all = append(c.all, payload.N)
	}
	return s.Ack(ctx, make([]record.Position, len(records))) // it counts them
}
