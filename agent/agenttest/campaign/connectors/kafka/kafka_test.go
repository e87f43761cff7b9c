package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// world is a broker and a topic for a single test.
type world struct {
	*testing.T
	addr   string
	topic  string
	client *kgo.Client
	admin  *kadm.Client
}

var topics atomic.Int64

// in returns a world whose topic has the given number of partitions.
func in(t *testing.T, addr string, partitions int32) *world {
	t.Helper()
	w := &world{T: t, addr: addr, topic: newTopic(t, addr, partitions)}
	w.client = w.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.admin = kadm.NewClient(w.client)
	return w
}

func (w *world) newClient(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(w.addr))...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(client.Close)
	return client
}

func newTopic(t testing.TB, addr string, partitions int32) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	name := fmt.Sprintf("topic%d", topics.Add(1))
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// produce writes messages with these values to a partition.
func (w *world) produce(partition int32, values ...string) {
	w.Helper()
	for _, v := range values {
		message := &kgo.Record{Topic: w.topic, Partition: partition, Value: []byte(v)}
		if err := w.client.ProduceSync(w.Context(), message).FirstErr(); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) settings(more ...string) map[string]string {
	s := map[string]string{"servers": w.addr, "topics": w.topic, "groupID": w.topic, "readFromBeginning": "true",
		"sessionTimeout": "6s", "commitOffsetsDelay": "20ms"}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

func (w *world) destinationSettings(more ...string) map[string]string {
	s := map[string]string{"servers": w.addr, "topic": w.topic}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

// committed returns the offset of the group, -1 when there is none.
func (w *world) committed(partition int32) int64 {
	w.Helper()
	all, err := w.admin.FetchOffsets(w.Context(), w.topic)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		w.Fatal(err)
	}
	if o, ok := all.Lookup(w.topic, partition); ok {
		return o.At
	}
	return -1
}

// source is a running source.
type source struct {
	*world
	sdk.Source
	ctx  context.Context
	torn bool
}

func (w *world) env(id string) context.Context {
	env := &sdk.Env{ConnectorID: id, PluginName: "builtin:kafka", Logger: slog.New(slog.DiscardHandler)}
	return sdk.WithEnv(w.Context(), env)
}

// open opens a source and fails the test if it does not open.
func (w *world) open(settings map[string]string, pos record.Position) *source {
	w.Helper()
	s, err := w.tryOpen(settings, pos)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) tryOpen(settings map[string]string, pos record.Position) (*source, error) {
	s := &source{world: w, Source: sdk.Standard(kafka.Connector()).NewSource(), ctx: w.env(w.topic + ":source")}
	w.Cleanup(s.close)
	if err := s.Configure(s.ctx, settings); err != nil {
		return nil, err
	}
	return s, s.Source.Open(s.ctx, pos)
}

func (s *source) close() {
	if !s.torn {
		s.torn = true
		_ = s.Teardown(context.WithoutCancel(s.ctx))
	}
}

// read returns the next records, at least n.
func (s *source) read(n int) (all []record.Record) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, wait.Limit)
	defer cancel()
	for len(all) < n {
		more, err := s.Read(ctx)
		if err != nil {
			s.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, more...)
	}
	return all
}

// want checks the values of the next records.
func (s *source) want(values ...string) []record.Record {
	s.Helper()
	all := s.read(len(values))
	if got, want := strings.Join(show(all), " "), strings.Join(values, " "); got != want {
		s.Fatalf("got %s, want %s", got, want)
	}
	return all
}

// fails returns the error that ends reading. No record may precede it.
func (s *source) fails() error {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, wait.Limit)
	defer cancel()
	records, err := s.Read(ctx)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("the source does not fail: it reads %v", show(records))
	}
	return err
}

func (s *source) ack(records ...record.Record) {
	s.Helper()
	var all []record.Position
	for _, r := range records {
		all = append(all, r.Position)
	}
	if err := s.Ack(s.ctx, all); err != nil {
		s.Fatal(err)
	}
}

func show(records []record.Record) (values []string) {
	for i := range records {
		raw, _ := records[i].After.Raw()
		values = append(values, string(raw))
	}
	return values
}

// runAll runs the tests against one broker, each with a topic of two partitions.
func runAll(t *testing.T, tests map[string]func(*world)) {
	k := server.StartKafka(t, server.KafkaOptions{})
	for name, check := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(in(t, k.Addr, 2))
		})
	}
}

// destination is a running destination.
type destination struct {
	*world
	sdk.Destination
	ctx context.Context
}

// destination returns a configured destination.
func (w *world) destination(settings map[string]string) *destination {
	w.Helper()
	d := &destination{world: w, Destination: sdk.Standard(kafka.Connector()).NewDestination(),
		ctx: w.env(w.topic + ":destination")}
	w.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(d.ctx)) })
	if err := d.Configure(d.ctx, settings); err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) openDestination(settings map[string]string) *destination {
	w.Helper()
	d := w.destination(settings)
	if err := d.Open(d.ctx); err != nil {
		w.Fatal(err)
	}
	return d
}

// write writes records as the agent does.
func (d *destination) write(records ...record.Record) {
	d.Helper()
	n := 0
	async, settled := d.Destination.(sdk.AsyncDestination), func(k int, err error) {
		if n += k; err != nil {
			d.Errorf("record %d: %v", n, err)
		}
	}
	if err := errors.Join(async.WriteAsync(d.ctx, records, settled), async.Flush(d.ctx)); err != nil ||
		n != len(records) {
		d.Fatalf("%d of %d records written: %v", n, len(records), err)
	}
}

// one returns a record with a number, whose payload is value.
func one(n int, value string) record.Record {
	return record.Record{
		Position: record.Position(strconv.Itoa(n)), Operation: record.OperationCreate,
		Metadata: record.NewMetadata(map[string]string{record.KeySourceConnectorID: "p:s"}),
		Key:      record.Raw([]byte("k")), After: record.Raw([]byte(value)),
	}
}

// plainValue configures the destination to write the payload alone.
func plainValue(settings map[string]string) map[string]string {
	settings = maps.Clone(settings)
	settings["sdk.record.format"], settings["sdk.record.format.options"] = "template",
		`{{ printf "%s" .Payload.After }}`
	return settings
}

// stored returns the committed messages of the topic, each partition in order.
func (w *world) stored() (all []*kgo.Record) {
	w.Helper()
	client := w.newClient(kgo.ConsumeTopics(w.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := w.admin.ListCommittedOffsets(w.Context(), w.topic)
	if err != nil {
		w.Fatal(err)
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left++
		}
	})
	ctx, cancel := context.WithTimeout(w.Context(), wait.Limit)
	defer cancel()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.Fatal(err)
		}
		fetches.EachRecord(func(m *kgo.Record) {
			if o, _ := ends.Lookup(m.Topic, m.Partition); m.Offset == o.Offset-1 {
				left--
			}
			if !m.Attrs.IsControl() {
				all = append(all, m)
			}
		})
	}
	return all
}

func (w *world) wantStored(values ...string) {
	w.Helper()
	var got []string
	for _, m := range w.stored() {
		got = append(got, string(m.Value))
	}
	if got, want := strings.Join(got, " "), strings.Join(values, " "); got != want {
		w.Errorf("the topic has %s, want %s", got, want)
	}
}

// TestContract runs the conformance tests of connectors.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	k := server.StartKafka(t, server.KafkaOptions{})
	plugintest.Run(t, plugintest.Target{
		Connector: kafka.Connector(),
		Timeout:   20 * time.Second,
		Source: func(tb testing.TB, n int) map[string]string {
			name := newTopic(tb, k.Addr, 1)
			client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr), kgo.DefaultProduceTopic(name))
			if err != nil {
				tb.Fatal(err)
			}
			defer client.Close()
			for i := range n {
				client.Produce(tb.Context(), kgo.StringRecord(strconv.Itoa(i)), nil)
			}
			if err := client.Flush(tb.Context()); err != nil {
				tb.Fatal(err)
			}
			return map[string]string{"servers": k.Addr, "topics": name, "readFromBeginning": "true",
				"sessionTimeout": "6s"}
		},
		Destination: func(tb testing.TB) map[string]string {
			return map[string]string{"servers": k.Addr, "topic": newTopic(tb, k.Addr, 1)}
		},
	})
}
