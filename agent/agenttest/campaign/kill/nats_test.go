package kill_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/spec"
)

// natsSystem is a server with the stream LEDGER, whose connector logs in with a password from a file. The test itself
// logs in as another user.
type natsSystem struct {
	*server.NATS
	t        testing.TB
	password string // path of the file
	users    string // path of the file with users that the server includes
	n        int    // passwords so far
}

func startNATS(t testing.TB, dir string, lines ...string) *natsSystem {
	t.Helper()
	s := &natsSystem{t: t, password: filepath.Join(dir, "password"), users: filepath.Join(server.Dir(t), "users.conf")}
	s.write(s.users, s.authorization())
	s.write(s.password, "word-0")
	s.NATS = server.StartNATS(t, 1, append(lines, fmt.Sprintf("include %q", s.relative()))...)[0]
	c, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err == nil {
		_, err = js.CreateStream(t.Context(),
			jetstream.StreamConfig{Name: "LEDGER", Subjects: []string{"ledger", "orders.>"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// relative is the path of the users file as the server needs it, which resolves includes relative to its own file.
func (s *natsSystem) relative() string {
	return "../" + filepath.Base(filepath.Dir(s.users)) + "/users.conf"
}

func (s *natsSystem) authorization() string {
	return fmt.Sprintf("authorization: {users: [{user: test, password: test}, {user: conduit, password: word-%d}]}\n",
		s.n)
}

func (s *natsSystem) write(path, content string) {
	s.t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

// rotate replaces the password.
func (s *natsSystem) rotate(ctx context.Context) error {
	s.n++
	s.write(s.users, s.authorization())
	s.Stop()
	if err := s.Start(ctx); err != nil {
		return err
	}
	s.write(s.password, fmt.Sprintf("word-%d", s.n))
	return nil
}

func (s *natsSystem) connect() (*client.Conn, error) {
	return client.Connect(s.URL(), client.UserInfo("test", "test"), client.NoReconnect())
}

func (s *natsSystem) settings(more ...string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": "nats://" + addr, "auth.username": "conduit",
			"auth.password": "${file:" + s.password + "}", "timeout": "2s"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
}

// produce publishes each number under an id, so that a stream has none twice.
func (s *natsSystem) produce(ctx context.Context, first, n int) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	for i := first; i < first+n; i++ {
		if _, err := js.Publish(ctx, "ledger", fmt.Appendf(nil, `{"n":%d}`, i),
			jetstream.WithMsgID(fmt.Sprint(i))); err != nil {
			return err
		}
	}
	return nil
}

// stored returns the numbers in the stream.
func (s *natsSystem) stored(ctx context.Context) (all []int, err error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, "LEDGER")
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages() // Fetch makes another consumer for each batch
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for range stream.CachedInfo().State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		var n int
		if _, err := fmt.Sscanf(string(m.Data()), `{"n":%d`, &n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// TestNATSSource reads a stream.
func TestNATSSource(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:nats",
		System: func(t *testing.T, dir string) *kill.System {
			s := startNATS(t, dir)
			return &kill.System{Addr: s.Addr, Server: s, Rotate: s.rotate, Produce: s.produce,
				Settings: s.settings("stream", "LEDGER")}
		},
	})
}

// TestNATSDestination publishes to a stream, which drops duplicates within its duplicate window.
func TestNATSDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:nats", Once: true,
		System: func(t *testing.T, dir string) *kill.System {
			s := startNATS(t, dir)
			return &kill.System{Addr: s.Addr, Server: s, Rotate: s.rotate, Stored: s.stored,
				Settings: s.settings("subject", "ledger", "retry.timeout", "1s", "sdk.record.format", "template",
					"sdk.record.format.options", "{{ toJson .Payload.After }}")}
		},
	})
}

// TestNATSExample runs the example of the connector's page, with the URL and the paths of the test.
func TestNATSExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	s := startNATS(t, a.Path("."))
	file := example(t, "plugins/builtin/nats/README.md")
	file = replace(t, file, "tls://nats.example.com:4222", s.URL())
	file = replace(t, file, "/etc/conduit/nats-password", s.password)
	file = replace(t, file, "stream: ORDERS", "stream: LEDGER")
	file = replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl"))
	if err := s.produce(t.Context(), 1, 3); err != nil {
		t.Fatal(err)
	}
	a.Save("orders.yaml", file)
	a.WaitPhase("orders", spec.PhaseRunning, 1)
	a.Wait("the messages", func() bool {
		content, _ := os.ReadFile(a.Path("orders.jsonl"))
		return strings.Count(string(content), `"nats.stream":"LEDGER"`) == 3
	})
}
