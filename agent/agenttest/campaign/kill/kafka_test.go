package kill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/spec"
)

// kafkaSystem is a Kafka whose connector logs in with a password from a file. The test itself logs in as another user.
type kafkaSystem struct {
	*server.Kafka
	t        *testing.T
	password string // path of the file
	n        int    // passwords so far
}

const kafkaPartitions = 3

func startKafka(t *testing.T, dir string) *kafkaSystem {
	k := &kafkaSystem{t: t, password: filepath.Join(dir, "password")}
	k.Kafka = server.StartKafka(t, server.KafkaOptions{Topics: fmt.Sprintf("ledger:%d", kafkaPartitions),
		Users: k.users(1)})
	if err := os.WriteFile(k.password, []byte(secret(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	k.n = 1
	return k
}

func secret(n int) string { return fmt.Sprintf("secret%d", n) }

func (k *kafkaSystem) users(n int) []string {
	return []string{"PLAIN test test", "SCRAM-SHA-256 conduit " + secret(n)}
}

func (k *kafkaSystem) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		k.Advertise(k.t, addr)
		all := map[string]string{"servers": addr, "saslMechanism": "SCRAM-SHA-256", "saslUsername": "conduit",
			"saslPassword": fmt.Sprintf("${file:%s}", k.password), "timeout": "2s"}
		for name, value := range more {
			all[name] = value
		}
		return all
	}
}

// rotate replaces the password of the connector.
func (k *kafkaSystem) rotate(ctx context.Context) error {
	k.n++
	k.SetUsers(k.t, k.users(k.n)...)
	k.Stop()
	if err := k.Start(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(k.password+".new", []byte(secret(k.n)), 0o600); err != nil {
		return err
	}
	return os.Rename(k.password+".new", k.password)
}

// client returns a client for the test. It bypasses the proxy that the broker advertises.
func (k *kafkaSystem) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(k.Addr),
		kgo.SASL(plain.Auth{User: "test", Pass: "test"}.AsMechanism()))...)
}

// produce writes each number to partition number modulo kafkaPartitions.
func (k *kafkaSystem) produce(ctx context.Context, first, n int) error {
	// Without retries: a kfake that was killed does not know which batches it has.
	client, err := k.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.RecordRetries(0), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	messages := make([]*kgo.Record, n)
	for i := range messages {
		value, _ := json.Marshal(map[string]int{"n": first + i})
		messages[i] = &kgo.Record{Topic: "ledger", Partition: int32((first + i) % kafkaPartitions), Value: value}
	}
	return client.ProduceSync(ctx, messages...).FirstErr()
}

// stored reads the committed records of the topic.
func (k *kafkaSystem) stored(ctx context.Context) ([]int, error) {
	client, err := k.client(kgo.ConsumeTopics("ledger"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, "ledger")
	if err != nil {
		return nil, err
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left++
		}
	})
	var all []int
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(m *kgo.Record) {
			if o, _ := ends.Lookup(m.Topic, m.Partition); m.Offset == o.Offset-1 {
				left--
			}
			if m.Attrs.IsControl() {
				return
			}
			var value struct {
				Payload struct{ After struct{ N int } }
			}
			if err = json.Unmarshal(m.Value, &value); err == nil {
				all = append(all, value.Payload.After.N)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// TestKafkaSource runs the suite with the source.
func TestKafkaSource(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:kafka",
		System: func(t *testing.T, dir string) *kill.System {
			k := startKafka(t, dir)
			return &kill.System{Addr: k.Addr, Server: k, Rotate: k.rotate, Produce: k.produce,
				Settings: k.settings(map[string]string{"topics": "ledger", "groupID": "kill",
					"readFromBeginning": "true", "sessionTimeout": "6s"})}
		},
		Group: func(n int) int { return n % kafkaPartitions },
	})
}

// TestKafkaDestination runs the suite with the destination, which repeats outstanding records.
func TestKafkaDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:kafka",
		System: func(t *testing.T, dir string) *kill.System {
			k := startKafka(t, dir)
			return &kill.System{Addr: k.Addr, Server: k, Rotate: k.rotate, Stored: k.stored,
				Settings: k.settings(map[string]string{"topic": "ledger", "partition": "0"})}
		},
		Reread: true,
	})
}

// graceful ends the broker so that it keeps the open transactions.
type graceful struct{ *kafkaSystem }

// Kill stops the broker gracefully.
func (g graceful) Kill() { g.Stop() }

// TestKafkaExactlyOnceDestination runs the suite with the destination in transactions: nothing is repeated. A killed
// kfake ends open transactions without a marker in the log, which hides all later records of their producer, so the
// test stops it instead.
func TestKafkaExactlyOnceDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:kafka",
		System: func(t *testing.T, dir string) *kill.System {
			k := startKafka(t, dir)
			return &kill.System{Addr: k.Addr, Server: graceful{k}, Rotate: k.rotate, Stored: k.stored,
				Settings: k.settings(map[string]string{"topic": "ledger", "partition": "0", "exactlyOnce": "true"})}
		},
		Once: true,
		Skip: map[kill.Fault]string{kill.ServerKilled: "kfake loses the transactions that are open when it is killed"},
	})
}

// TestKafkaDestinationExample runs the example of the destination, with the servers of the test.
func TestKafkaDestinationExample(t *testing.T) {
	load.Parallel(t, load.Agent+2*load.Server)
	k := &kafkaSystem{t: t, Kafka: server.StartKafka(t, server.KafkaOptions{Topics: "orders:1,customers:1"})}
	p := &postgresSystem{Postgres: server.StartPostgres(t, "")}
	if err := p.exec(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY, total numeric); CREATE TABLE customers "+
		"(id int PRIMARY KEY); INSERT INTO orders VALUES (1, 9.90)"); err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	file := example(t, "plugins/builtin/kafka/README.md", "## Destination")
	file = replace(t, file,
		"postgres://conduit:${file:/etc/conduit/shop-password}@db.example.com/shop?sslmode=verify-full",
		fmt.Sprintf("postgres://postgres@%s/postgres", p.Addr))
	file = replace(t, file, "kafka1.example.com:9093, kafka2.example.com:9093", k.Addr)
	file = replace(t, file, "tls.enabled: 'true'", "tls.enabled: 'false'")
	a.Save("shop.yaml", file)
	a.WaitPhase("shop-to-kafka", spec.PhaseRunning, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr), kgo.ConsumeTopics("orders"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := func(want string) {
		t.Helper()
		m := client.PollRecords(ctx, 1).Records()
		if len(m) != 1 || !strings.Contains(string(m[0].Value), want) || string(m[0].Key) != `{"id":1}` {
			t.Fatalf("got %v, want a message with %s", m, want)
		}
	}
	next(`"after":{"id":1,"total":"9.90"}`)
	if err := p.exec(t.Context(), "UPDATE orders SET total = 8"); err != nil {
		t.Fatal(err)
	}
	next(`"after":{"id":1,"total":"8"}`)
}

// TestKafkaExample runs the example of the connector's page, with the servers and paths of the test.
func TestKafkaExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	k := &kafkaSystem{t: t, Kafka: server.StartKafka(t, server.KafkaOptions{Topics: fmt.Sprintf("orders:1,ledger:%d",
		kafkaPartitions), Users: []string{"PLAIN test test", "SCRAM-SHA-512 conduit secret1"}})}
	a := agenttest.Start(t, "")
	if err := os.WriteFile(a.Path("password"), []byte("secret1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := example(t, "plugins/builtin/kafka/README.md")
	file = replace(t, file, "kafka1.example.com:9093, kafka2.example.com:9093", k.Addr)
	file = replace(t, file, "tls.enabled: 'true'", "tls.enabled: 'false'")
	file = replace(t, file, "/etc/conduit/kafka-password", a.Path("password"))
	file = replace(t, file, "topics: orders", "topics: ledger")
	file = replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl"))
	if err := k.produce(t.Context(), 1, 5); err != nil {
		t.Fatal(err)
	}
	a.Save("orders.yaml", file)
	a.WaitPhase("orders", spec.PhaseRunning, 1)
	a.Wait("the messages", func() bool {
		content, _ := os.ReadFile(a.Path("orders.jsonl"))
		return strings.Count(string(content), `"opencdc.collection":"ledger"`) == 5
	})
}
