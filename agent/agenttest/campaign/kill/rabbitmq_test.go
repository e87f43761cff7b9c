package kill_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/spec"
)

// rabbitMQ is a node with the queue ledger, whose connector logs in with a password from a file. The test itself logs
// in as another user.
type rabbitMQ struct {
	*server.RabbitMQ
	t        testing.TB
	password string // path of the file
	n        int    // passwords so far
}

// startRabbitMQ starts a node whose queue has a type.
func startRabbitMQ(t testing.TB, dir, kind string) *rabbitMQ {
	t.Helper()
	r := &rabbitMQ{t: t, password: filepath.Join(dir, "password"),
		RabbitMQ: server.StartRabbitMQ(t, "word", []string{"ledger:" + kind})}
	if err := os.WriteFile(r.password, []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A node that is killed soon after the declaration of a quorum queue may begin the queue anew, because it has not
	// yet written the queue's name.
	r.Stop()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// rotate replaces the password, and ends all connections.
func (r *rabbitMQ) rotate(ctx context.Context) error {
	r.n++
	word := fmt.Sprintf("word-%d", r.n)
	r.SetPassword(r.t, word)
	r.Stop()
	if err := r.Start(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(r.password+".new", []byte(word), 0o600); err != nil {
		return err
	}
	return os.Rename(r.password+".new", r.password)
}

func (r *rabbitMQ) settings(more ...string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": "amqp://" + addr, "auth.username": "conduit",
			"auth.password": "${file:" + r.password + "}", "timeout": "2s", "heartbeat": "2s"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
}

// do calls f with a channel of the bare client.
func (r *rabbitMQ) do(ctx context.Context, f func(*client.Channel) error) error {
	c, err := client.Dial("amqp://test:test@" + r.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.CloseDeadline(time.Now()) })()
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

// produce returns when the node has confirmed all messages. A node that has just started may never confirm a message
// that it gets before its queues have a leader.
func (r *rabbitMQ) produce(ctx context.Context, first, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return r.do(ctx, func(ch *client.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		returned := ch.NotifyReturn(make(chan client.Return, n)) // messages without a queue are confirmed as well
		for i := first; i < first+n; i++ {
			one, err := ch.PublishWithDeferredConfirm("", "ledger", true, false, client.Publishing{
				DeliveryMode: client.Persistent, Body: fmt.Appendf(nil, `{"n":%d}`, i)})
			if err != nil {
				return err
			}
			if acked, err := one.WaitContext(ctx); err != nil || !acked {
				return fmt.Errorf("message %d is not confirmed: %w", i, err)
			}
			select {
			case r := <-returned:
				return fmt.Errorf("message %d is returned: %s", i, r.ReplyText)
			default:
			}
		}
		return nil
	})
}

// drain removes the messages from the queue, and recognizes those that come twice by their ids, as consumers can.
type drain struct {
	*rabbitMQ
	all  []int // numbers in the removed messages, in order
	seen map[string]bool
}

// stored removes the messages one at a time, so that the node never has several to send again, in another order.
func (d *drain) stored(ctx context.Context) ([]int, error) {
	err := d.do(ctx, func(ch *client.Channel) error {
		for {
			m, ok, err := ch.Get("ledger", false)
			if err != nil || !ok {
				return err
			}
			if err := d.take(&m); err != nil {
				return err
			}
		}
	})
	return slices.Clone(d.all), err
}

// take acknowledges a message. It may come twice: when the acknowledgement is lost, or when an agent that is killed has
// sent it and the next one sends it again. The node may then store the first copy after several messages of the next
// agent.
func (d *drain) take(m *client.Delivery) error {
	var n int
	if _, err := fmt.Sscanf(string(m.Body), `{"n":%d`, &n); err != nil {
		return err
	}
	if !d.seen[m.MessageId] {
		d.all = append(d.all, n)
	}
	d.seen[m.MessageId] = true
	return m.Ack(false)
}

// runRabbitMQSource reads from a queue of a type. The node sends unacknowledged messages of a queue again when the
// connection is lost, but not those of a stream. A quorum queue may send many of them in another order.
func runRabbitMQSource(t *testing.T, kind string) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:rabbitmq", Reread: kind != "stream", NoOrder: kind == "quorum",
		System: func(t *testing.T, dir string) *kill.System {
			r := startRabbitMQ(t, dir, kind)
			return &kill.System{Addr: r.Addr, Server: r, Rotate: r.rotate, Produce: r.produce,
				Settings: r.settings("queue", "ledger")}
		},
	})
}

// TestRabbitMQSource reads a quorum queue.
func TestRabbitMQSource(t *testing.T) { runRabbitMQSource(t, "quorum") }

// TestRabbitMQClassicSource reads a classic queue.
func TestRabbitMQClassicSource(t *testing.T) { runRabbitMQSource(t, "classic") }

// TestRabbitMQStreamSource reads a stream.
func TestRabbitMQStreamSource(t *testing.T) { runRabbitMQSource(t, "stream") }

// TestRabbitMQDestination publishes to a quorum queue.
func TestRabbitMQDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:rabbitmq", Once: true,
		System: func(t *testing.T, dir string) *kill.System {
			d := &drain{rabbitMQ: startRabbitMQ(t, dir, "quorum"), seen: map[string]bool{}}
			return &kill.System{Addr: d.Addr, Server: d, Rotate: d.rotate, Stored: d.stored,
				Settings: d.settings("routingKey", "ledger", "retry.timeout", "1s", "sdk.record.format", "template",
					"sdk.record.format.options", "{{ toJson .Payload.After }}")}
		},
	})
}

// TestRabbitMQExample runs the example of the connector's page, with the URL and the paths of the test.
func TestRabbitMQExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	r := startRabbitMQ(t, a.Path("."), "quorum")
	file := example(t, "plugins/builtin/rabbitmq/README.md")
	file = replace(t, file, "amqps://rabbitmq.example.com:5671", r.URL())
	file = replace(t, file, "/etc/conduit/rabbitmq-password", r.password)
	file = replace(t, file, "queue: orders", "queue: ledger")
	file = replace(t, file, "path: orders.jsonl", "path: "+a.Path("orders.jsonl"))
	if err := r.produce(t.Context(), 1, 3); err != nil {
		t.Fatal(err)
	}
	a.Save("orders.yaml", file)
	a.WaitPhase("orders", spec.PhaseRunning, 1)
	a.Wait("the messages", func() bool {
		content, _ := os.ReadFile(a.Path("orders.jsonl"))
		return strings.Count(string(content), `"rabbitmq.routingKey":"ledger"`) == 3
	})
}
