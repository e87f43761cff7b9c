package kill_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

const kafkaRecords = 1_000_000

// BenchmarkKafka moves messages through a kfake with an agent, and with bare loops of the same client.
func BenchmarkKafka(b *testing.B) {
	window := []kgo.Opt{kgo.MaxBufferedRecords(4500), kgo.ProducerLinger(time.Millisecond)} // as an agent has under way
	runBenchmarks(b, kafkaRecords, []benchmark{{"producer", func(b *testing.B) { benchProducer(b) }}, {"producer-with-window", func(b *testing.B) { benchProducer(b, window...) }},
		{"file-to-kafka", benchToKafka}, {"consumer", func(b *testing.B) { benchConsumer(b, io.Discard) }}, {"consumer-to-lines", benchConsumerToLines},
		{"kafka-to-file", func(b *testing.B) { benchFromKafka(b, "") }}, {"kafka-to-lines", func(b *testing.B) { benchFromKafka(b, ", "+payloads) }}})
}

// startKfake starts a broker with the topic bench, which has messages if it is filled.
func startKfake(b *testing.B, filled bool) *server.Kafka {
	b.Helper()
	k := server.StartKafka(b, server.KafkaOptions{Topics: "bench:1"})
	if filled {
		produceBench(b, k)
	}
	return k
}

func benchClient(b *testing.B, k *server.Kafka, opts ...kgo.Opt) *kgo.Client {
	b.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.Addr))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func produceBench(b *testing.B, k *server.Kafka, opts ...kgo.Opt) {
	b.Helper()
	c := benchClient(b, k, opts...)
	var failed error
	for range kafkaRecords {
		c.Produce(b.Context(), &kgo.Record{Topic: "bench", Value: []byte(httpLine)}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := c.Flush(b.Context()); err != nil || failed != nil {
		b.Fatal(err, failed)
	}
}

func benchProducer(b *testing.B, opts ...kgo.Opt) {
	b.StopTimer()
	k := startKfake(b, false)
	b.StartTimer()
	produceBench(b, k, opts...)
}

func benchToKafka(b *testing.B) {
	b.StopTimer()
	k, dir := startKfake(b, false), agenttest.NewDir(b)
	writeLines(b, dir, kafkaRecords)
	admin := kadm.NewClient(benchClient(b, k))
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:kafka, settings: {servers: "%s", topic: bench, sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, k.Addr), sometimes(func() bool {
		ends, err := admin.ListEndOffsets(context.Background(), "bench")
		end, _ := ends.Lookup("bench", 0)
		return err == nil && end.Offset >= kafkaRecords
	}))
}

// benchConsumer has a bare loop read all messages. Unless it is to discard them, it writes each as a line, and syncs
// the file behind those of a fetch.
func benchConsumer(b *testing.B, to io.Writer) {
	b.StopTimer()
	k := startKfake(b, true)
	b.StartTimer()
	c := benchClient(b, k, kgo.ConsumeTopics("bench"), kgo.ConsumerGroup("bare"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var text []byte
	for n := 0; n < kafkaRecords; {
		fetches := c.PollFetches(b.Context())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		n += fetches.NumRecords()
		f, ok := to.(*os.File)
		if !ok {
			continue
		}
		text = text[:0]
		fetches.EachRecord(func(r *kgo.Record) { text = append(append(text, r.Value...), '\n') })
		if _, err := f.Write(text); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchConsumerToLines(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	benchConsumer(b, f)
}

func benchFromKafka(b *testing.B, format string) {
	b.StopTimer()
	k, dir := startKfake(b, true), agenttest.NewDir(b)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:kafka, settings: {servers: "%s", topics: bench, groupID: bench, readFromBeginning: 'true'}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out%s}}
`, k.Addr, dir, format), lines(dir+"/out", kafkaRecords))
}
